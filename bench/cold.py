#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares the first exchanges of a process (bench/cold.c) between Weft, an earlier build of Weft, Open MPI with CUDA and
# NCCL, by medians of alternating rounds on the GPUs of one machine. NCCL initialises in the first exchange.
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import peers as comparison
from peer_programs import BENCH, Failure, Job, OpenMpi, bytes_of, execute, join_path, nccl_peers, weft_peer

BEFORE = "Weft, before"
SIZES = "8,64K,1M,64M"
KERNEL_SIZES = "64K,1M"
KERNEL_MS, TRIAL_KERNEL_MS = 5, 0.1  # of a kernel of the program, launched before each exchange
EXCHANGES = 20
TRIAL = ("-n", "4", "-w", "1", "-a", "1048576")
STEADY_LIMIT = 1.5  # of the second exchange, in steady states
FRESH_LIMIT = 2  # of an exchange with newly allocated buffers, in steady states
FRESH_SIZE = "64K"  # the size with that limit
FIRST_LIMITS = {"Open MPI": 0.5, BEFORE: 0.25}  # ratios of Weft's first exchange
MILLISECONDS = "MPI_Init"


class Measurement:
    """One library under bench/cold.c."""

    def __init__(self, peer, jobs, options):
        self.peer, self.name, self.facts = peer, peer.name, peer.facts
        self.jobs = [job.name for job in jobs]
        self.options = list(options)
        self.runs = []  # what the program reported, for the result file

    def measure(self, job, ranks, memory, seconds):
        """Returns {point: figure}: microseconds, of MPI_Init milliseconds."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = [*self.peer.command(job.program, ranks), "-m", str(bytes_of(job.sizes)), *job.options]
            words += [*self.options, "-d", "cuda" if memory == "D" else "host", "-j", file.name]
            execute(words, self.peer.environment, seconds)
            with open(file.name, encoding="utf-8") as text:
                facts = json.load(text)
        self.facts["library"] = self.facts.get("library") or facts["library"].split(",")[0]
        row = facts["rows"][0]
        if row["valid"] is False:
            raise Failure("wrong data arrived")
        self.runs.append({"job": job.name, **row})
        return points_of_run(job.name, row)


def points_of_run(name, row):
    """Returns {point: figure} of one run."""
    start, fresh = row["start_us"], row["fresh_us"]
    return {
        "MPI_Init": row["init_ms"], f"first, {name}": start[0], f"MPI_Init and first, {name}": row["init_ms"] * 1e3 + start[0],
        f"second, {name}": start[1], f"last, {name}": start[-1], f"total, {name}": sum(start),
        f"first allreduce, {name}": row["sum_us"][0],
        f"last allreduce, {name}": row["sum_us"][-1],
        f"steady, {name}": row["steady_us"], f"fresh, {name}": statistics.median(fresh),
        f"fresh and allocation, {name}": statistics.median(row["fresh_step_us"]),
    }  # fmt: skip


def jobs_of(sizes, kernel_sizes, kernel_ms):
    """Returns one job for each size; a process has only one first exchange."""
    jobs = [Job(size, "cold", 0, size, (), "us") for size in sizes]
    return jobs + [
        Job(f"{size} beside a kernel", "cold", 0, size, ("-k", str(kernel_ms)), "us") for size in kernel_sizes
    ]


def compare(figures, bars=True):
    """Returns a row for each point: medians, Weft's ratio to the best of the others and to its earlier build, limits."""
    rows = []
    for point in figures["Weft"]:
        values = {name: statistics.median(points[point]) for name, points in figures.items() if points.get(point)}
        row = {"point": point, "unit": "ms" if point == MILLISECONDS else "us", "figures": values}
        others = [value for name, value in values.items() if name not in ("Weft", BEFORE)]
        if others:
            row["ratio"] = round(values["Weft"] / min(others), 3)
        if BEFORE in values:
            row["ratio_before"] = round(values["Weft"] / values[BEFORE], 3)
        row["bars"] = limits_of(point, values, figures["Weft"]) if bars else []
        rows.append(row)
    return rows


def limits_of(point, values, mine):
    """Returns the limits of a point: of Weft to others of the same run, or to its own steady state."""
    what, _, job = point.partition(", ")
    limits = []
    if what == "first":
        limits = [(name, limit * values[name]) for name, limit in FIRST_LIMITS.items() if name in values]
    elif what == "second" or (what == "fresh" and job == FRESH_SIZE):
        limit = STEADY_LIMIT if what == "second" else FRESH_LIMIT
        limits = [("steady", limit * statistics.median(mine[f"steady, {job}"]))]
    return [{"of": name, "bar": round(bar, 2), "met": values["Weft"] <= bar} for name, bar in limits]


def show(rows, measured, facts):
    print("%s x %s, driver %s, %s" % (facts["gpus"], facts["gpu"], facts["driver"], facts["date"]))
    for one in measured:
        print("  %-14s %s" % (one.name, one.facts.get("library", "")))
    for name, why in facts["missing"].items():
        print("  %-14s left out: %s" % (name, why))
    print(
        "Medians of %d rounds, %d ranks, microseconds (MPI_Init: ms); ratios of Weft."
        % (facts["rounds"], facts["ranks"])
    )
    print("%-44s" % "" + "".join("%15s" % one.name for one in measured) + "%8s%8s  limits" % ("ratio", "before"))
    for row in rows:
        cells = "".join("%15s" % comparison.shown(row["figures"].get(one.name)) for one in measured)
        bars = ", ".join("%s %s %s" % (bar["of"], comparison.shown(bar["bar"]), "met" if bar["met"] else "MISSED")
                         for bar in row["bars"])  # fmt: skip
        print("%-44s%s%8s%8s  %s" % (row["point"], cells, row.get("ratio", "-"), row.get("ratio_before", "-"), bars))


def gather(chosen, folder, jobs):
    """Returns the libraries that can be started, and the reasons for the missing ones."""
    found, missing = [weft_peer("Weft", chosen.weft)], {}

    def before(prefix):  # the programs of the new prefix: the old one may lack this one
        peer = weft_peer(BEFORE, prefix, {"LD_LIBRARY_PATH": join_path(os.path.join(prefix, "lib"))})
        peer.programs = found[0].programs
        return peer

    for name, given, make in (
        (BEFORE, chosen.before, before),
        ("Open MPI", chosen.openmpi, lambda path: OpenMpi(path, chosen.memory, folder, jobs)),
        ("NCCL", chosen.nccl, lambda path: nccl_peers(chosen.weft, path)[0]),
    ):
        try:
            if not given:
                raise Failure("not given")
            found.append(make(os.path.abspath(given)))
        except Failure as failure:
            missing[name] = str(failure)
    options = [*(TRIAL if chosen.trial else ("-n", str(EXCHANGES))), *(["-c"] if chosen.check else [])]
    if chosen.per_task:
        for peer in found:
            peer.environment["GPU_VISIBILITY"] = "per_task"
            peer.preload = ["sh", comparison.VISIBILITY, *peer.preload]
    return [Measurement(peer, jobs, options) for peer in found], missing


def arguments():
    parser = argparse.ArgumentParser(description="Compares the first exchanges of a process between libraries.")
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(comparison.ROOT, "build", "prefix"))
    parser.add_argument("--before", metavar="PREFIX", help="an earlier build of Weft")
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI built with CUDA")
    parser.add_argument("--nccl", metavar="FOLDER", help="folder of libnccl.so.2, or its parent")
    parser.add_argument("--ranks", type=int, help="number of ranks (the number of GPUs)")
    parser.add_argument("--per-task", action="store_true", help="each rank sees its own GPU only (srun)")
    parser.add_argument("--memory", choices=("D", "H"), default="D", help="device or host memory (D)")
    parser.add_argument("--sizes", default=SIZES, help="bytes of a message (%(default)s)")
    parser.add_argument("--kernel-sizes", default=KERNEL_SIZES, help="the same beside a kernel (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="largest number of rounds (5)")
    parser.add_argument("--seconds", type=float, default=300, help="time limit of all rounds (300)")
    parser.add_argument("--limit", type=float, default=60, help="time limit of one run, after which it is killed (60)")
    parser.add_argument("--check", action="store_true", help="check every byte; the times then mean nothing")
    parser.add_argument("--trial", action="store_true", help="few exchanges, small allocations, no limits")
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/cold-<GPUs>.json)")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    return chosen


def main():
    end = time.monotonic()
    chosen = arguments()
    end += chosen.seconds
    gpus = comparison.count_gpus(chosen.weft) if chosen.memory == "D" else 0
    ranks = chosen.ranks or gpus or 2
    if ranks < 2:
        print("cold: %d ranks: at least 2 are needed" % ranks, file=sys.stderr)
        return 2
    kernel_ms = TRIAL_KERNEL_MS if chosen.trial else KERNEL_MS
    sizes = [[size for size in text.split(",") if size] for text in (chosen.sizes, chosen.kernel_sizes)]
    jobs = jobs_of(sizes[0], sizes[1] if chosen.memory == "D" else [], kernel_ms)
    with tempfile.TemporaryDirectory() as folder:
        measured, missing = gather(chosen, folder, jobs)
        rounds = comparison.Rounds(measured, ranks, chosen.memory, end, chosen.limit)
        number = rounds.run(jobs, chosen.rounds)
    facts = {**comparison.machine(measured, chosen.memory), "gpus": gpus, "ranks": ranks,
             "visibility": "per task" if chosen.per_task else "all", "rounds": number, "missing": missing,
             "failures": rounds.failures, "libraries": {one.name: one.facts.get("library") for one in measured},
             "kernel_ms": kernel_ms, "nvls": "off"}  # fmt: skip
    rows = compare(rounds.figures, not (chosen.trial or chosen.check))
    show(rows, measured, facts)
    path = chosen.json or os.path.join(BENCH, "results", "cold-%d.json" % ranks)
    with open(path, "w", encoding="utf-8") as file:
        runs = {one.name: one.runs for one in measured}
        json.dump({**facts, "rows": rows, "figures": rounds.figures, "runs": runs}, file, indent=1)
        file.write("\n")
    return 1 if "Weft" in rounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
