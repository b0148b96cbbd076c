#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares Weft with Open MPI with CUDA, UCX and NCCL ("peers") on the GPUs of one machine, by medians of alternating
# rounds. Libraries that are not given, fail or hang are reported as left out. The programs are in peer_programs.py.
import argparse
import datetime
import json
import os
import re
import statistics
import sys
import tempfile
import time

from peer_programs import (
    BENCH,
    HIGHER_IS_BETTER,
    JOBS,
    MEBI,
    PAIR_JOBS,
    ROOT,
    UNITS,
    Failure,
    OpenMpi,
    Ucx,
    bytes_of,
    execute,
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
VISIBILITY = os.path.join(BENCH, "common", "per_task.sh")
LINK_GB_S = 396  # measured maximum that one of these GPUs receives
ALLTOALL_BAR = 1.2  # ratio to the link time of 16 MiB from each other rank


def gather_peers(chosen, folder):
    """Returns the peers that can be started, and the reasons for the missing peers."""
    lone = weft_peer("Weft, lone", chosen.weft, {"WEFT_GPU_RESIDENT_KERNEL": "off"})
    lone.jobs = ("latency",)
    peers, missing = [weft_peer("Weft", chosen.weft)], {}
    if chosen.per_task:
        peers.append(weft_peer(PER_TASK, chosen.weft, {"GPU_VISIBILITY": "per_task"}, ["sh", VISIBILITY]))
    if chosen.memory == "D":
        peers.append(lone)
    for name, given, make in (
        ("Open MPI", chosen.openmpi, lambda path: [OpenMpi(path, chosen.memory, folder)]),
        ("UCX", chosen.ucx, lambda path: [Ucx(path, chosen.memory)]),
        ("NCCL", chosen.nccl, lambda path: nccl_peers(chosen.weft, path)),
    ):
        try:
            if not given:
                raise Failure("not given")
            peers += make(os.path.abspath(given))
        except Failure as failure:
            missing[name] = str(failure)
    return peers, missing


class Rounds:
    """Rounds within a time limit; a job that failed with a peer is not repeated with that peer."""

    def __init__(self, peers, gpus, memory, end, limit):
        self.peers, self.gpus, self.memory, self.end, self.limit = peers, gpus, memory, end, limit
        self.figures = {peer.name: {} for peer in peers}  # {peer: {point: [one figure per round]}}
        self.failures = {}  # {peer: {job: reason}}
        self.took = {}  # {(peer, job): seconds of the last run}

    def run(self, jobs, rounds):
        """Returns the number of started rounds."""
        for number in range(rounds):
            order = self.peers if number % 2 == 0 else self.peers[::-1]
            for job in jobs:
                for peer in order:
                    if job.name in peer.jobs and job.name not in self.failures.get(peer.name, {}):
                        self.once(peer, job)
            if time.monotonic() > self.end:
                return number + 1
        return rounds

    def once(self, peer, job):
        start = time.monotonic()
        if start + self.took.get((peer.name, job.name), 0) > self.end:
            if (peer.name, job.name) not in self.took:
                self.fail(peer, job, "no time left")
            return
        try:
            measured = peer.measure(job, self.gpus, self.memory, min(self.limit, self.end + 5 - start))
        except Failure as failure:
            self.fail(peer, job, str(failure))
            return
        self.took[peer.name, job.name] = time.monotonic() - start
        for point, value in measured.items():
            self.figures[peer.name].setdefault(point, []).append(value)

    def fail(self, peer, job, reason):
        print(f"{peer.name}, {job.name}: left out: {reason}", file=sys.stderr, flush=True)
        self.failures.setdefault(peer.name, {})[job.name] = reason


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
    print("%s x %s, driver %s, %s" % (facts["gpus"], facts["gpu"], facts["driver"], facts["date"]))
    for peer in peers:
        print("  %-14s %s" % (peer.name, peer.facts.get("library", "")))
    for name, why in facts["missing"].items():
        print("  %-14s left out: %s" % (name, why))
    print("Medians of %d rounds; ratio: Weft over the best of the others." % facts["rounds"])
    print("%-18s%-11s" % ("", "unit") + "".join("%15s" % peer.name for peer in peers) + "%8s  bars" % "ratio")
    for row in rows:
        cells = "".join("%15s" % shown(row["figures"].get(peer.name)) for peer in peers)
        bars = ", ".join("%s %s %s" % (bar["column"], shown(bar["bar"]), "met" if bar["met"] else "MISSED")
                         for bar in row["bars"])  # fmt: skip
        print("%-18s%-11s%s%8s  %s" % (row["point"], row["unit"], cells, row.get("ratio", "-"), bars))


def shown(value):
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def question(words):
    try:
        return execute(words, dict(os.environ), 20).strip()
    except Failure:
        return ""


def machine(peers, memory):
    """Returns GPU, driver, date and commit."""
    device = next((peer.facts for peer in peers if "device" in peer.facts), {})
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = question(query) if memory == "D" else ""
    name, _, driver = (answer.splitlines() or [""])[0].rpartition(", ")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": question(["git", "-C", ROOT, "describe", "--always", "--dirty"]) or "?",
        "gpu": device.get("device", name or "none (host memory)"), "gpus": device.get("devices", 0),
        "driver": "%s, CUDA %s" % (driver or "?", device.get("driver", "?")),
    }  # fmt: skip


def count_gpus(weft):
    """Returns the number of GPUs of this machine, from Weft's own tool."""
    sys.path.insert(0, os.path.join(ROOT, "cli"))
    sys.path.insert(0, weft)
    from weft_mpi import bench

    return bench.count_gpus()


def arguments():
    parser = argparse.ArgumentParser(
        description="Compares Weft with Open MPI, UCX and NCCL on the GPUs of one machine."
    )
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI built with CUDA")
    parser.add_argument("--ucx", metavar="PREFIX", help="UCX with ucx_perftest (libucx of the package libucx-cu13)")
    parser.add_argument("--nccl", metavar="FOLDER", help="folder of libnccl.so.2, or its parent")
    parser.add_argument("--per-task", action="store_true", help="also with ranks that see their own GPU only (srun)")
    parser.add_argument("--ranks", type=int, help="ranks of the collectives (the number of GPUs)")
    parser.add_argument("--rounds", type=int, default=5, help="largest number of rounds (5)")
    parser.add_argument("--seconds", type=float, default=600, help="time limit of all rounds (600)")
    parser.add_argument("--limit", type=float, default=40, help="time limit of one run, after which it is killed (40)")
    parser.add_argument("--memory", choices=("D", "H"), default="D", help="device or host memory (D)")
    parser.add_argument("--jobs", metavar="JOB,...", help="some of: " + ", ".join(job.name for job in JOBS))
    parser.add_argument("--sizes", metavar="MAX", help="omit larger messages, such as 64K")
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/peers-<GPUs>.json)")
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
    gpus = chosen.ranks or (count_gpus(chosen.weft) if chosen.memory == "D" else 2)
    if gpus < 2:
        print("peers: %d GPUs found: at least 2 are needed" % gpus, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        peers, missing = gather_peers(chosen, folder)
        rounds = Rounds(peers, gpus, chosen.memory, begin + chosen.seconds, chosen.limit)
        number = rounds.run(chosen.jobs, chosen.rounds)
    facts = {**machine(peers, chosen.memory), "ranks": gpus, "rounds": number, "missing": missing,
             "failures": rounds.failures, "libraries": {peer.name: peer.facts.get("library") for peer in peers},
             "nvls": "off"}  # fmt: skip
    rows = compare(rounds.figures, chosen.jobs, gpus, chosen.memory == "D")
    show(rows, peers, facts)
    path = chosen.json or os.path.join(BENCH, "results", "peers-%d.json" % gpus)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**facts, "rows": rows, "figures": rounds.figures}, file, indent=1)
        file.write("\n")
    return 1 if "Weft" in rounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
