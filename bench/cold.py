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

import comparison
from comparison import BEFORE
from peer_programs import Failure, Job, OpenMpi, bytes_of, execute, nccl_peers, weft_peer

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
    start, fresh, alltoall = row["start_us"], row["fresh_us"], row["fresh_alltoall_us"]
    return {
        "MPI_Init": row["init_ms"], f"first, {name}": start[0], f"MPI_Init and first, {name}": row["init_ms"] * 1e3 + start[0],
        f"second, {name}": start[1], f"last, {name}": start[-1], f"total, {name}": sum(start),
        f"first allreduce, {name}": row["sum_us"][0],
        f"last allreduce, {name}": row["sum_us"][-1],
        f"steady, {name}": row["steady_us"], f"fresh, {name}": statistics.median(fresh),
        f"fresh and allocation, {name}": statistics.median(row["fresh_step_us"]),
        f"fresh alltoall, {name}": statistics.median(alltoall[len(alltoall) // 2:]),
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
        row.update(comparison.ratios(values))
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
    comparison.show_libraries(measured, facts)
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
    mine = weft_peer("Weft", chosen.weft)
    others = {
        BEFORE: (chosen.before, lambda path: [comparison.earlier_build(path, mine.programs)]),
        "Open MPI": (chosen.openmpi, lambda path: [OpenMpi(path, chosen.memory, folder, jobs)]),
        "NCCL": (chosen.nccl, lambda path: nccl_peers(chosen.weft, path)[:1]),
    }
    found, missing = comparison.gather(others)
    found.insert(0, mine)
    options = [*(TRIAL if chosen.trial else ("-n", str(EXCHANGES))), *(["-c"] if chosen.check else [])]
    options += ["-l"] if chosen.late else []
    if chosen.per_task:
        comparison.limit_visibility(found)
    return [Measurement(peer, jobs, options) for peer in found], missing


def arguments():
    parser = argparse.ArgumentParser(description="Compares the first exchanges of a process between libraries.")
    comparison.add_options(parser, seconds=300, limit=60)
    parser.add_argument("--before", metavar="PREFIX", help="an earlier build of Weft")
    parser.add_argument("--nccl", metavar="FOLDER", help="folder of libnccl.so.2, or its parent")
    parser.add_argument("--sizes", default=SIZES, help="bytes of a message (%(default)s)")
    parser.add_argument("--kernel-sizes", default=KERNEL_SIZES, help="the same beside a kernel (%(default)s)")
    parser.add_argument("--check", action="store_true", help="check every byte; the times then mean nothing")
    parser.add_argument("--late", action="store_true", help="GPUs are selected after MPI_Init, not before")
    parser.add_argument("--trial", action="store_true", help="few exchanges, small allocations, no limits")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    return chosen


def main():
    end = time.monotonic()
    chosen = arguments()
    end += chosen.seconds
    gpus, ranks = comparison.count_ranks(chosen)
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
    facts = {**comparison.facts_of(chosen, measured, rounds, number, missing), "gpus": gpus,
             "visibility": "per task" if chosen.per_task else "all", "late": chosen.late,
             "kernel_ms": kernel_ms, "nvls": "off"}  # fmt: skip
    rows = compare(rounds.figures, not (chosen.trial or chosen.check))
    show(rows, measured, facts)
    runs = {one.name: one.runs for one in measured}
    return comparison.write(chosen, "cold", {**facts, "rows": rows, "figures": rounds.figures, "runs": runs})


if __name__ == "__main__":
    sys.exit(main())
