#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares Weft with Open MPI with CUDA, UCX and NCCL ("peers") on the GPUs of one machine, by medians of alternating
# rounds. Libraries that are not given, fail or hang are reported as left out. The programs are in peer_programs.py.
import argparse
import os
import re
import statistics
import sys
import tempfile
import time

import comparison
from peer_programs import (
    HIGHER_IS_BETTER,
    JOBS,
    MEBI,
    PAIR_JOBS,
    UNITS,
    OpenMpi,
    Ucx,
    bytes_of,
    nccl_peers,
    points_of,
    weft_peer,
)  # fmt: skip

# Required figures ("bars") of Weft on H200: (column, point) -> figure. Collectives need 4 ranks or more.
BARS = {
    ("Weft", "latency 8"): 4.8, ("Weft", "latency 1K"): 5.5, ("Weft", "latency 8K"): 6.5,
    ("Weft", "latency 64K"): 7.0, ("Weft, lone", "latency 8"): 8.2, ("Weft, lone", "latency 64K"): 8.5,
    ("Weft, lone", "latency 1M"): 11.3, ("Weft, lone", "latency 4M"): 19.8, ("Weft", "window 64K"): 90e3,
    ("Weft", "window 1M"): 300e3, ("Weft", "window 4M"): 340e3, ("Weft", "window 64M"): 387e3,
    ("Weft", "both ways 4M"): 620e3, ("Weft", "both ways 16M"): 700e3, ("Weft", "rate 8"): 1.5e6,
    ("Weft", "allreduce 8"): 6, ("Weft", "allreduce 32K"): 15, ("Weft", "allreduce 256K"): 19,
    ("Weft", "allreduce 1M"): 24, ("Weft", "alltoall 8"): 7, ("Weft", "alltoall 64K"): 15,
    ("Weft", "alltoall 1M"): 35, ("Weft", "allgather 8"): 7, ("Weft", "bcast 8"): 7, ("Weft", "reduce_scatter 8"): 7,
}  # fmt: skip

# Required ratio of Weft's time to that of NCCL in the same run, with 4 ranks or more. 256 KiB and 64 MiB per rank are 1
# and 256 MiB in total with 4 ranks.
NCCL_BARS = {
    "allreduce 16M": 0.85, "allreduce 256M": 1.0, "allgather 256K": 0.7, "bcast 1M": 0.7, "reduce_scatter 256K": 0.7,
    "bcast 256M": 1.0, "allgather 64M": 0.9, "reduce_scatter 64M": 0.9,
}  # fmt: skip
PER_TASK = "Weft, per task"  # each rank sees its own GPU only, as with `srun --gpus-per-task=1`
PER_TASK_BAR = 1.05  # ratio to the same job with all GPUs visible
LINK_GB_S = 396  # measured maximum that one of these GPUs receives
ALLTOALL_BAR = 1.2  # ratio to the link time of 16 MiB from each other rank


def gather_peers(chosen, folder):
    """Returns the peers that can be started, and the reasons for the missing peers."""
    lone = weft_peer("Weft, lone", chosen.weft, {"WEFT_GPU_RESIDENT_KERNEL": "off"})
    lone.jobs = ("latency",)
    peers = [weft_peer("Weft", chosen.weft)]
    if chosen.per_task:
        peers.append(weft_peer(PER_TASK, chosen.weft, {"GPU_VISIBILITY": "per_task"}, ["sh", comparison.VISIBILITY]))
    if chosen.memory == "D":
        peers.append(lone)
    others = {
        "Open MPI": (chosen.openmpi, lambda path: [OpenMpi(path, chosen.memory, folder)]),
        "UCX": (chosen.ucx, lambda path: [Ucx(path, chosen.memory)]),
        "NCCL": (chosen.nccl, lambda path: nccl_peers(chosen.weft, path)),
    }
    found, missing = comparison.gather(others)
    return peers + found, missing


def compare(figures, jobs, gpus, bars=True):
    """Returns one row per point: the medians, Weft's ratio to the best of the others, the bars."""
    rows = []
    for job in jobs:
        for point in points_of(job).values():
            values = {peer: statistics.median(points[point]) for peer, points in figures.items() if points.get(point)}
            row = {"point": point, "unit": UNITS[job.field], "figures": values}
            others = [value for peer, value in values.items() if not peer.startswith("Weft")]
            higher = job.field in HIGHER_IS_BETTER
            if others and "Weft" in values:
                row["ratio"] = round(values["Weft"] / (max if higher else min)(others), 3)
            row["bars"] = bars_of(values, point, higher, gpus) if bars and (job.name in PAIR_JOBS or gpus >= 4) else []
            rows.append(row)
    return rows


def bars_of(values, point, higher, gpus):
    found = []
    bars = dict(BARS)
    bars["Weft", "alltoall 16M"] = round(ALLTOALL_BAR * (gpus - 1) * 16 * MEBI / LINK_GB_S / 1e3, 1)
    if "NCCL" in values and point in NCCL_BARS:
        bars["Weft", point] = round(NCCL_BARS[point] * values["NCCL"], 1)
    if PER_TASK in values and "Weft" in values:
        limit = values["Weft"] / PER_TASK_BAR if higher else values["Weft"] * PER_TASK_BAR
        bars[PER_TASK, point] = round(limit, 2)
    for (column, name), bar in bars.items():
        if name == point and column in values:
            met = values[column] >= bar if higher else values[column] <= bar
            found.append({"column": column, "bar": bar, "met": met})
    return found


def show(rows, peers, facts):
    comparison.show_libraries(peers, facts)
    print("Medians of %d rounds; ratio: Weft over the best of the others." % facts["rounds"])
    print("%-18s%-11s" % ("", "unit") + "".join("%15s" % peer.name for peer in peers) + "%8s  bars" % "ratio")
    for row in rows:
        cells = "".join("%15s" % comparison.shown(row["figures"].get(peer.name)) for peer in peers)
        bars = ", ".join("%s %s %s" % (bar["column"], comparison.shown(bar["bar"]), "met" if bar["met"] else "MISSED")
                         for bar in row["bars"])  # fmt: skip
        print("%-18s%-11s%s%8s  %s" % (row["point"], row["unit"], cells, row.get("ratio", "-"), bars))


def arguments():
    parser = argparse.ArgumentParser(
        description="Compares Weft with Open MPI, UCX and NCCL on the GPUs of one machine."
    )
    comparison.add_options(parser, seconds=600, limit=40)
    parser.add_argument("--ucx", metavar="PREFIX", help="UCX with ucx_perftest (libucx of the package libucx-cu13)")
    parser.add_argument("--nccl", metavar="FOLDER", help="folder of libnccl.so.2, or its parent")
    parser.add_argument("--jobs", metavar="JOB,...", help="some of: " + ", ".join(job.name for job in JOBS))
    parser.add_argument("--sizes", metavar="MAX", help="omit larger messages, such as 64K")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    known = {job.name for job in JOBS}
    names = set(chosen.jobs.split(",")) if chosen.jobs else known
    if names - known:
        parser.error("--jobs %s: no such job" % ",".join(sorted(names - known)))
    chosen.jobs = [job for job in JOBS if job.name in names]
    if chosen.sizes:
        if not re.fullmatch(r"\d+[KMG]?", chosen.sizes):
            parser.error(f"--sizes {chosen.sizes}: expected a number of bytes such as 64K")
        chosen.jobs = [job for job in map(lambda job: within(job, bytes_of(chosen.sizes)), chosen.jobs) if job.sizes]
    return chosen


def within(job, largest):
    return job._replace(sizes=",".join(size for size in job.sizes.split(",") if bytes_of(size) <= largest))


def main():
    begin = time.monotonic()
    chosen = arguments()
    gpus = chosen.ranks or (comparison.count_gpus(chosen.weft) if chosen.memory == "D" else 2)
    if gpus < 2:
        print("peers: %d GPUs found: at least 2 are needed" % gpus, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        peers, missing = gather_peers(chosen, folder)
        rounds = comparison.Rounds(peers, gpus, chosen.memory, begin + chosen.seconds, chosen.limit)
        number = rounds.run(chosen.jobs, chosen.rounds)
    facts = {**comparison.facts_of(chosen, peers, rounds, number, missing), "nvls": "off"}
    rows = compare(rounds.figures, chosen.jobs, gpus, chosen.memory == "D")
    show(rows, peers, facts)
    return comparison.write(chosen, "peers", {**facts, "rows": rows, "figures": rounds.figures})


if __name__ == "__main__":
    sys.exit(main())
