#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares two builds of Weft in alternating rounds on one machine: medians of each row and their ratio. A row passes
# if the new build takes at most LIMIT times as long as the old build. Exit status 1: a row misses, or a run fails.
import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile

import places
from peer_programs import HIGHER_IS_BETTER, UNITS, Failure, Job, weft_peer

HOST_JOBS = (
    Job("latency", "latency", 2, "8,1K,8K,64K,1M", (), "latency_us"),
    Job("window", "bw", 2, "8,64K,1M", (), "bandwidth_mb_s"),
    Job("both ways", "bibw", 2, "8,1M", (), "bandwidth_mb_s"),
    Job("rate", "mbw_mr", 2, "8", ("-W", "64"), "messages_per_s"),
    Job("barrier", "barrier", 2, "0", (), "latency_us"),
    Job("allreduce", "allreduce", 2, "8,4K,64K,1M", (), "latency_us"),
    Job("bcast", "bcast", 2, "8,64K,1M", (), "latency_us"),
    Job("reduce", "reduce", 2, "8,64K,1M", (), "latency_us"),
    Job("gather", "gather", 2, "8,64K,256K", (), "latency_us"),
    Job("allgather", "allgather", 2, "8,64K,256K", (), "latency_us"),
    Job("alltoall", "alltoall", 2, "8,4K,256K", (), "latency_us"),
    Job("alltoallv", "alltoallv", 2, "8,1K,8K,64K", (), "latency_us"),
    Job("alltoallw", "alltoallw", 2, "8,1K", (), "latency_us"),
    Job("neighbor_alltoallv", "neighbor_alltoallv", 2, "8,1K", (), "latency_us"),
    Job("iallreduce", "iallreduce", 2, "8", (), "latency_us"),
)
DEVICE_JOBS = (
    Job("latency", "latency", 2, "8,1K,8K,64K,1M,4M", (), "latency_us"),
    Job("window", "bw", 2, "8K,64K,1M,4M,64M", (), "bandwidth_mb_s"),
    Job("rate", "mbw_mr", 2, "8", ("-W", "64"), "messages_per_s"),
    Job("allreduce", "allreduce", 2, "8,32K,1M", (), "latency_us"),
    Job("alltoall", "alltoall", 2, "8,64K,1M", (), "latency_us"),
    Job("bcast", "bcast", 2, "8,1M", (), "latency_us"),
)


def environment(settings):
    """Returns {variable: value} of NAME=VALUE words."""
    return dict(word.split("=", 1) for word in settings)


def measure(builds, jobs, memory, rounds, seconds, line=None):
    """Returns {row: {build: [figures]}} and the failures. With a `line`, the figures note the place of the cores."""
    figures, failures, placed = {}, [], places.Places(line)
    for number in range(rounds):
        for job in jobs:
            for build in builds if number % 2 == 0 else builds[::-1]:
                try:
                    points = placed.placed(lambda build=build, job=job: build.measure(job, 2, memory, seconds))
                except Failure as failure:
                    failures.append(f"{build.name}, {job.name}: {failure}")
                    continue
                for point, figure in points.items():
                    figures.setdefault((point, job.field), {}).setdefault(build.name, []).append(figure)
    return figures, failures


def compare(figures, limit):
    """Returns a list of rows with medians and the time ratio new / old, among runs with the cores in the same place."""
    rows = []
    shortest = places.fastest(one for by_build in figures.values() for values in by_build.values() for one in values)
    for (point, field), by_build in figures.items():
        if len(by_build) < 2:
            continue
        place, by_build = places.compared(by_build, shortest)
        old, new = (statistics.median(by_build[name]) for name in ("old", "new"))
        ratio = old / new if field in HIGHER_IS_BETTER else new / old
        rows.append({"row": point, "unit": UNITS[field], "old": old, "new": new, "ratio": round(ratio, 3),
                     "good": ratio <= limit, "place": place, "rounds": min(map(len, by_build.values()))})  # fmt: skip
    return rows


def main():
    parser = argparse.ArgumentParser(description="Compares two prefixes of Weft in alternating rounds.")
    parser.add_argument("old", help="prefix of the old build")
    parser.add_argument("new", help="prefix of the new build")
    parser.add_argument("--memory", choices=("H", "D"), default="H", help="host or device buffers")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", action="append", metavar="JOB", help="only this job, such as latency; repeatable")
    parser.add_argument("--limit", type=float, default=1.05, help="largest time ratio new / old")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per program")
    parser.add_argument("--old-set", action="append", default=[], metavar="NAME=VALUE", help="setting of the old build")
    parser.add_argument("--new-set", action="append", default=[], metavar="NAME=VALUE", help="setting of the new build")
    parser.add_argument("--json", help="write the rows to this file")
    chosen = parser.parse_args()
    builds = [weft_peer(name, os.path.abspath(prefix), environment(settings)) for name, prefix, settings in
              (("old", chosen.old, chosen.old_set), ("new", chosen.new, chosen.new_set))]  # fmt: skip
    jobs = DEVICE_JOBS if chosen.memory == "D" else HOST_JOBS
    unknown = set(chosen.only or ()) - {job.name for job in jobs}
    if unknown:
        parser.error("no job %s: %s" % (", ".join(sorted(unknown)), ", ".join(job.name for job in jobs)))
    jobs = [job for job in jobs if not chosen.only or job.name in chosen.only]
    with tempfile.TemporaryDirectory() as folder:
        line = places.line_of(folder) if chosen.memory == "H" else None
        figures, failures = measure(builds, jobs, chosen.memory, chosen.rounds, chosen.timeout, line)
    rows = compare(figures, chosen.limit)
    print("%-16s %14s %14s %8s  %-8s %s" % ("row", "old", "new", "new/old", "runs", "unit"))
    for row in rows:
        runs = "%d %s" % (row["rounds"], row["place"] or "")
        print("%-16s %14.2f %14.2f %8.3f  %-8s %s%s" % (row["row"], row["old"], row["new"], row["ratio"], runs,
                                                        row["unit"], "" if row["good"] else "  MISSED"))  # fmt: skip
    print("geometric mean of new/old: %.3f" % statistics.geometric_mean(row["ratio"] for row in rows) if rows else "")
    for failure in failures:
        print(failure, file=sys.stderr)
    if chosen.json:
        facts = {"date": datetime.date.today().isoformat(), "memory": chosen.memory, "limit": chosen.limit,
                 "facts": builds[1].facts, "old_settings": chosen.old_set, "new_settings": chosen.new_set}  # fmt: skip
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "rows": rows, "failures": failures}, file, indent=1)
            file.write("\n")
    return 0 if rows and not failures and all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
