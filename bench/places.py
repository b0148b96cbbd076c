# SPDX-License-Identifier: BSD-3-Clause
# Places of the cores: a host that runs virtual machines moves their cores between near and far places, so a cache line
# takes 60 or 300 ns for seconds or minutes. The line is measured between runs; only runs of one place are compared.
import os

from peer_programs import BENCH, execute

FAR = 2.0  # a line that takes this many times as long as the fastest of all is far
PLACES = ("near", "far")


class Line:
    """Measures how long a cache line takes between the first two cores of this process, in ns."""

    def __init__(self, folder, compiler="cc"):
        self.program = os.path.join(folder, "line")
        words = ["-std=gnu11", "-O2", os.path.join(BENCH, "line.c"), "-pthread", "-o", self.program]
        execute([compiler, *words], dict(os.environ), 60)

    def measure(self):
        return float(execute([self.program], dict(os.environ), 10))


def line_of(folder):
    """Returns a Line; None where there are not two cores."""
    return Line(folder) if len(os.sched_getaffinity(0)) > 1 else None


class Placed(float):
    """A figure, with the time in ns that a line took before and after its run; None: not measured."""

    lines = None

    def __new__(cls, value, lines):
        figure = super().__new__(cls, value)
        figure.lines = lines
        return figure


class Places:
    """Notes the line's time around each run."""

    def __init__(self, line):
        self.line, self.last = line, None

    def placed(self, run):
        """Returns the figures of run(), {row: figure}, as Placed."""
        if self.line is None:
            return run()
        before = self.last if self.last is not None else self.line.measure()
        self.last = None
        figures = run()
        self.last = self.line.measure()
        return {row: Placed(value, (before, self.last)) for row, value in figures.items()}


def fastest(figures):
    """Returns the shortest time of a line around any of the figures; None if none was measured."""
    times = [time for figure in figures if getattr(figure, "lines", None) for time in figure.lines]
    return min(times, default=None)


def place_of(figure, shortest):
    """Returns near or far; None for a run in which the cores moved, or whose place was not measured."""
    if shortest is None or getattr(figure, "lines", None) is None:
        return None
    far = [time > FAR * shortest for time in figure.lines]
    return PLACES[far[0]] if far[0] == far[1] else None


def compared(by_library, shortest):
    """Chooses the place in which a row is compared: where the library with the fewest runs has the most.

    `by_library`: {library: [figure]}. Returns (place, {library: [figure of that place]}); place None, with all
    figures, if the places were not measured or no place has runs of each library.
    """
    found = {place: {} for place in PLACES}
    for library, figures in by_library.items():
        for place in PLACES:
            found[place][library] = [figure for figure in figures if place_of(figure, shortest) == place]
    best = max(PLACES, key=lambda place: min(map(len, found[place].values()), default=0))
    if not by_library or min(map(len, found[best].values())) == 0:
        return None, by_library
    return best, found[best]
