# SPDX-License-Identifier: BSD-3-Clause
# Rounds of a comparison of MPI libraries: the libraries take turns part by part, in as many rounds as the time allows.
# A part that a library does not end is repeated with few iterations, then left out; the report gives the reason.
import sys
import time

from peer_programs import Failure
from places import Places

# A library that waits busily needs milliseconds for a call of more ranks than cores: what it does not end in the first
# time, it repeats with few iterations.
PEER_LIMIT_S = 10
FEW_LIMIT_S = 60
WEFT_LIMIT_S = 180
FEW = ("-i", "20", "-x", "2")
FEW_PART = 0.1  # of the length of one measurement


class HostPart:
    """Points of bench/host.c that one process measures."""

    def __init__(self, seconds, ranks, points, label, limit):
        self.ranks, self.points, self.label, self.seconds = ranks, points, label, seconds
        self.limit = min(limit, PEER_LIMIT_S)
        self.name = "%s on %d ranks" % (", ".join(points) or "start and end", ranks)
        self.shortens = "reverse_100k" not in points  # one call is all of it

    def run(self, library, extra, limit, few):
        seconds = self.seconds * FEW_PART if few else self.seconds
        measured = library.measure(self.ranks, extra, self.points, seconds, limit)
        return {self.label % name: value for name, value in measured.items()}


class ProgramPart:
    """One job of bench/*.c."""

    limit = PEER_LIMIT_S
    shortens = True

    def __init__(self, job):
        self.job = job
        self.name = "%s on %d ranks" % (job.name, job.ranks)

    def run(self, library, extra, limit, few):
        return library.measure_program(self.job, extra, limit, FEW if few else ())


def better_configuration(figures, higher_is_better):
    """Returns the configuration that is best in most rows of {configuration: {row: figure}}."""
    wins = dict.fromkeys(figures, 0)
    for row in set().union(*figures.values()):
        choose = max if row in higher_is_better else min
        values = {name: rows[row] for name, rows in figures.items() if row in rows}
        wins[choose(values, key=values.get)] += 1
    return max(wins, key=wins.get)


class Rounds:
    """The figures of all libraries, {(library, configuration): {row: [figure]}}, and how they were measured."""

    def __init__(self, libraries, higher_is_better, line=None):
        self.runs = [(one, name, extra) for one in libraries for name, extra in one.configurations().items()]
        self.higher_is_better = higher_is_better
        self.places = Places(line)
        self.figures = {(library.name, name): {} for library, name, _ in self.runs}
        self.few = set()  # (library, configuration, part) with few iterations
        self.left_out = {}  # {(library, configuration, part): reason}
        self._worse = set()  # (library, configuration, part) of which another configuration is better

    def run(self, parts, rounds, minutes, quiet):
        """Measures each part up to `rounds` times before the time ends."""
        end = time.monotonic() + 60 * minutes
        for number in range(rounds):
            for part in parts:
                if time.monotonic() <= end:
                    self.measure(part, number)
                elif number == 0:
                    self.left_out["all libraries", "default", part.name] = "the time ended"
                else:
                    return
            if not quiet:
                left = max(0, end - time.monotonic())
                print("round %d of at most %d, %.0f s left" % (number + 1, rounds, left), file=sys.stderr)

    def measure(self, part, number):
        """Runs a part with each library; the order is reversed in each round. After the first round a library keeps the
        configuration that is better in more rows of the part."""
        measured = {}
        for run in self.runs if number % 2 == 0 else reversed(self.runs):
            measured.setdefault(run[0].name, {})[run[1]] = self.places.placed(lambda run=run: self._one(part, *run))
        for library, by_configuration in measured.items():
            best = better_configuration(by_configuration, self.higher_is_better)
            for configuration, figures in by_configuration.items():
                if configuration != best:
                    self._worse.add((library, configuration, part.name))
                    continue
                for row, value in figures.items():
                    self.figures[library, configuration].setdefault(row, []).append(value)

    def counts(self):
        """Returns the fewest and the most figures of a row that was measured."""
        counts = [len(values) for rows in self.figures.values() for values in rows.values()] or [0]
        return min(counts), max(counts)

    def report(self):
        """Prints how often was measured, what with few iterations, and what was left out."""
        print("%d to %d rounds" % self.counts())
        for key in sorted(self.few - set(self.left_out)):
            print("few iterations, not ended in %d s with all: %s, %s, %s" % (PEER_LIMIT_S, *key))
        for key, reason in sorted(self.left_out.items()):
            print("left out: %s, %s, %s: %s" % (*key, reason))

    def facts(self):
        """Returns the part of a result file that says how was measured."""
        return {"rounds": self.counts(), "few_iterations": sorted(map(list, self.few - set(self.left_out))),
                "left_out": sorted([*key, reason] for key, reason in self.left_out.items()),
                "figures": {"%s, %s" % key: value for key, value in self.figures.items()},
                "lines_ns": {"%s, %s" % key: {row: [getattr(one, "lines", None) for one in values]
                             for row, values in rows.items()} for key, rows in self.figures.items()}}  # fmt: skip

    def _one(self, part, library, configuration, extra):
        """Returns {row: figure}; empty if a library does not end its own program. Raises Failure if Weft does not."""
        key = (library.name, configuration, part.name)
        if library.weft:
            try:
                return part.run(library, extra, WEFT_LIMIT_S, False)
            except Failure as failure:
                raise Failure("%s, %s, %s: %s" % (*key, failure)) from None
        if key in self.left_out or key in self._worse:
            return {}
        if key not in self.few:
            try:
                return part.run(library, extra, part.limit, False)
            except Failure as failure:
                if not part.shortens:
                    self.left_out[key] = str(failure)
                    return {}
                self.few.add(key)
        try:
            return part.run(library, extra, FEW_LIMIT_S, True)
        except Failure as failure:
            self.left_out[key] = str(failure)
            return {}
