#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares the programs of bench/host.py that the mpicc of Open MPI and of MPICH has built, each on its own library with
# its own mpiexec and on Weft (lib/compat). Weft's own build of the programs runs beside them. The libraries take turns
# program by program, in as many rounds as the time allows.
import argparse
import datetime
import os
import sys

import host
import places
from host import HIGHER_IS_BETTER, Failure, Library
from rounds import Rounds

RESULT = os.path.join(host.ROOT, "bench", "results", "compat-host.json")
# Loops of the program itself, in part or as a whole: shown without a bar.
LOOPS = ("pack_loop", "unpack_loop", "hand_packed_send")


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


def time_ratio(point, own, other):
    return round(own / other if point in HIGHER_IS_BETTER else other / own, 3)


def compare(table, programs):
    """Returns {library: rows}; a row has the figures of the program on its own library and on Weft, and of Weft's own
    build, and their time ratios. `own` is None if the own library did not end the program."""
    result = {}
    for library in programs:
        rows = result.setdefault(library.other, [])
        for point, weft in table.get(library.name, {}).items():
            own, native = table.get(library.other, {}).get(point), table["Weft"][point]
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
        rounds = Rounds(compared, HIGHER_IS_BETTER, places.line_of(folder))
        rounds.run(host.parts_of(chosen.rows, chosen.seconds), chosen.rounds, chosen.minutes, chosen.quiet)
    except Failure as error:
        print("bench: %s" % error, file=sys.stderr)
        return 2
    table, found = host.medians(rounds.figures)
    rows = compare(table, programs)
    for points in rows.values():
        host.add_places(points, found)
    versions = {library.name: library.version.split(",")[0] for library in compared}
    report(rows, versions)
    rounds.report()
    host.warn_if_busy(before)
    if chosen.json:
        facts = {"date": datetime.date.today().isoformat(), "commit": host.peer_programs.commit_of(chosen.weft),
                 "machine": before, "libraries": versions, "rows": rows}  # fmt: skip
        host.write(chosen.json, {**facts, **rounds.facts()})
    met = [row["met"] for points in rows.values() for row in points if "met" in row]
    return 1 if chosen.check and not (met and all(met)) else 0


if __name__ == "__main__":
    sys.exit(main())
