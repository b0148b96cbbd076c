#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares the programs of bench/host.py that the mpicc of Open MPI and of MPICH has built, each on its own library with
# its own mpiexec and on Weft (lib/compat). Weft's own build of the programs runs beside them. The libraries take turns
# program by program, in as many rounds as the time allows.
import argparse
import datetime
import os
import sys
import time

import host
from host import HIGHER_IS_BETTER, Failure, Library

RESULT = os.path.join(host.ROOT, "bench", "results", "compat-host.json")
# Loops of the program itself, in part or as a whole: shown without a bar.
LOOPS = ("pack_loop", "unpack_loop", "hand_packed_send")
# A library that waits busily needs milliseconds for a call of more ranks than cores: what it does not end in the first
# time, it repeats with few iterations.
OWN_LIMIT_S = 10
LIMIT_S = 60
WEFT_LIMIT_S = 180
FEW = ("-i", "20", "-x", "2")
FEW_PART = 0.1  # of the length of one measurement


class OnWeft(Library):
    """The programs of another library, started by Weft's mpiexec, which gives them the library of lib/compat."""

    def __init__(self, other, prefix, folder):
        super().__init__("%s's on Weft" % other.name, prefix, folder)
        self.weft = True
        self.other = other.name
        self.folder, self.program = other.folder, other.program

    def compile(self):
        """The other library has built the programs. Raises Failure if they do not run on Weft."""
        self.measure(1, [], ("call",), 0.01)
        if not self.version.startswith("Weft"):
            raise Failure("%s's program runs on %s" % (self.other, self.version))


class HostPart:
    """Points of bench/host.c that one process measures."""

    def __init__(self, seconds, ranks, points, label, limit):
        self.ranks, self.points, self.label, self.seconds = ranks, points, label, seconds
        self.limit = min(limit, OWN_LIMIT_S)
        self.name = "%s on %d ranks" % (", ".join(points) or "start and end", ranks)
        self.shortens = "reverse_100k" not in points  # one call is all of it

    def run(self, library, extra, limit, few):
        seconds = self.seconds * FEW_PART if few else self.seconds
        measured = library.measure(self.ranks, extra, self.points, seconds, limit)
        return {self.label % name: value for name, value in measured.items()}


class ProgramPart:
    """One job of bench/*.c."""

    limit = OWN_LIMIT_S
    shortens = True

    def __init__(self, job):
        self.job = job
        self.name = "%s on %d ranks" % (job.name, job.ranks)

    def run(self, library, extra, limit, few):
        return library.measure_program(self.job, extra, limit, FEW if few else ())


def parts_of(only, seconds):
    """Returns the parts with the chosen rows; all if `only` is empty."""
    parts = [HostPart(seconds, *part) for part in host.parts_of_round(True, only)]
    wanted = {job for (job, _), row in host.PROGRAM_ROWS.items() if not only or row in only}
    return parts + [ProgramPart(job) for job in host.PROGRAM_JOBS if job in wanted]


def better_configuration(figures):
    """Returns the configuration that is best in most rows of {configuration: {row: figure}}."""
    wins = dict.fromkeys(figures, 0)
    for row in set().union(*figures.values()):
        choose = max if row in HIGHER_IS_BETTER else min
        values = {name: rows[row] for name, rows in figures.items() if row in rows}
        wins[choose(values, key=values.get)] += 1
    return max(wins, key=wins.get)


class Turns:
    """The figures of all libraries, {(library, configuration): {row: [figure]}}, and how they were measured."""

    def __init__(self, libraries):
        self.runs = [(one, name, extra) for one in libraries for name, extra in one.configurations().items()]
        self.figures = {(library.name, name): {} for library, name, _ in self.runs}
        self.few = set()  # (library, configuration, part) with few iterations
        self.left_out = set()

    def measure(self, part, number):
        """Runs a part with each library; the order is reversed in each round. After the first round a library keeps the
        configuration that is better in more rows of the part."""
        measured = {}
        for run in self.runs if number % 2 == 0 else reversed(self.runs):
            measured.setdefault(run[0].name, {})[run[1]] = self._one(part, *run)
        for library, by_configuration in measured.items():
            best = better_configuration(by_configuration)
            for configuration, figures in by_configuration.items():
                if configuration != best:
                    self.left_out.add((library, configuration, part.name))
                    continue
                for row, value in figures.items():
                    self.figures[library, configuration].setdefault(row, []).append(value)

    def _one(self, part, library, configuration, extra):
        """Returns {row: figure}; empty if a library does not end its own program, which is reported once."""
        if library.weft:
            return part.run(library, extra, WEFT_LIMIT_S, False)
        key = (library.name, configuration, part.name)
        if key in self.left_out:
            return {}
        if key not in self.few:
            try:
                return part.run(library, extra, part.limit, False)
            except Failure as failure:
                if not part.shortens:
                    return self._leave_out(key, failure)
                self.few.add(key)
        try:
            return part.run(library, extra, LIMIT_S, True)
        except Failure as failure:
            return self._leave_out(key, failure)

    def _leave_out(self, key, failure):
        self.left_out.add(key)
        print("%s left out: %s: %s" % (key[0], key[2], str(failure)[-80:]), file=sys.stderr)
        return {}


def run_rounds(turns, parts, rounds, minutes, quiet):
    """Measures each part once, then up to `rounds` times before the time ends."""
    end = time.monotonic() + 60 * minutes
    for number in range(rounds):
        for part in parts:
            if number > 0 and time.monotonic() > end:
                return
            turns.measure(part, number)
        if not quiet:
            left = max(0, end - time.monotonic())
            print("round %d of at most %d, %.0f s left" % (number + 1, rounds, left), file=sys.stderr)


def time_ratio(point, own, other):
    return round(own / other if point in HIGHER_IS_BETTER else other / own, 3)


def compare(table, programs):
    """Returns {library: rows}; a row has the figures of the program on its own library and on Weft, and of Weft's own
    build, and their time ratios. `own` is None if the own library did not end the program."""
    result = {}
    for library in programs:
        rows = result.setdefault(library.other, [])
        for point, weft in table[library.name].items():
            own, native = table[library.other].get(point), table["Weft"][point]
            row = {"point": point, "own": own, "weft": weft, "native": native}
            if own is not None:
                row.update(ratio=time_ratio(point, own, weft), native_ratio=time_ratio(point, own, native))
            if own is not None and point not in LOOPS:
                row["met"] = weft > own if point in HIGHER_IS_BETTER else weft < own
            rows.append(row)
    return result


def report(rows, versions):
    print("us; rate: messages/s, bandwidth: MB/s, start and end: ms; ratios: time on Weft over time on the own library")
    for name, points in rows.items():
        print("\nprograms of %s (%s)" % (name, versions[name]))
        print("%-34s%12s%12s%12s%8s%8s" % ("", "own library", "on Weft", "native", "ratio", "native"))
        for row in points:
            figures = "".join("%12s" % host.shown(row[key]) for key in ("own", "weft", "native"))
            ratios = "".join("%8s" % host.shown(row.get(key)) for key in ("ratio", "native_ratio"))
            print("%-34s%s%s%s" % (row["point"], figures, ratios, "" if row.get("met", True) else "  MISSED"))
        with_bar = [row["met"] for row in points if "met" in row]
        without = sum(row["own"] is None for row in points)
        more = "; %d rows without a figure of the own library" % without if without else ""
        print("%d of %d rows are faster on Weft%s" % (sum(with_bar), len(with_bar), more))


def arguments():
    parser = argparse.ArgumentParser(
        description="Compares programs of Open MPI and MPICH on their own library and on Weft."
    )
    host.add_options(parser)
    parser.set_defaults(rounds=9, seconds=0.05)
    parser.add_argument("--minutes", type=float, default=7.0, help="no further round after this time (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/compat-host.json without --rows)")
    chosen = parser.parse_args()
    host.check_options(parser, chosen)
    if not chosen.rows and not chosen.json:
        chosen.json = RESULT
    return chosen


def main():
    chosen = arguments()
    folder = os.path.join(host.ROOT, "build", "bench-host")
    os.makedirs(folder, exist_ok=True)
    try:
        Library.bind = chosen.bind
        native, *peers = host.libraries(chosen, folder)
        programs = [OnWeft(peer, chosen.weft, folder) for peer in peers]
        compared = [library for pair in zip(peers, programs) for library in pair] + [native]
        for library in compared:
            library.compile()
        before = host.machine()
        turns = Turns(compared)
        run_rounds(turns, parts_of(chosen.rows, chosen.seconds), chosen.rounds, chosen.minutes, chosen.quiet)
    except Failure as error:
        print("bench: %s" % error, file=sys.stderr)
        return 2
    rows = compare(host.medians(turns.figures), programs)
    versions = {library.name: library.version.split(",")[0] for library in compared}
    report(rows, versions)
    counts = [len(values) for rows_of_one in turns.figures.values() for values in rows_of_one.values()]
    print("%d to %d rounds" % (min(counts), max(counts)))
    for key in sorted(turns.few - turns.left_out):
        print("few iterations, not ended in %d s with all: %s, %s, %s" % (OWN_LIMIT_S, *key))
    host.warn_if_busy(before)
    if chosen.json:
        facts = {"date": datetime.date.today().isoformat(), "machine": before, "libraries": versions,
                 "rounds": [min(counts), max(counts)], "few_iterations": sorted(map(list, turns.few)), "rows": rows,
                 "figures": {"%s, %s" % key: value for key, value in turns.figures.items()}}  # fmt: skip
        host.write(chosen.json, facts)
    met = [row["met"] for points in rows.values() for row in points if "met" in row]
    return 1 if chosen.check and not all(met) else 0


if __name__ == "__main__":
    sys.exit(main())
