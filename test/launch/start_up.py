#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The cost of the job's size before the first message, in jobs of real processes on fake hosts: what MPI_Init sends to
# the launcher, what it keeps for each rank, and the connections of a program that sends nothing.
# Arguments: program (bench/scale.c), WEFT_NET, processes of the larger job.
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from scale_server import BYTES_PER_RANK, PAGES_KIB, Run

PROGRAM, NETWORK, RANKS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PREFIX = os.environ["MPI_PREFIX"]
RANKS_PER_HOST, FEW_HOSTS = 4, 4
SERIES = 3  # memory of two processes may differ by what a thread had time to touch


def job(size, hosts, stage):
    return Run(size, size, size, stage, NETWORK, hosts).run(PROGRAM, PREFIX)


def counts_of(run, kind):
    return [counts[kind] for counts in run.counts.values()]


def check(what, value, least, most):
    print(f"{what}: {value:g}, allowed {least:g} to {most:g}", flush=True)
    return 0 if least <= value <= most else 1


def compare_start(small, large):
    """One rank on each host: two of them, and as many as there are ranks."""
    failed = 0
    # Slack: an address that needs one more part of a value.
    for kind, slack in (("messages", 2), ("bytes", 1200)):
        few, many = max(counts_of(small, kind)), max(counts_of(large, kind))
        failed += check(f"{kind} of a rank, {small.size} and {large.size} hosts", many, 1, few + slack)
    failed += check("fences", max(counts_of(large, "barrier_in")), 1, max(counts_of(small, "barrier_in")))
    # No state of a peer before the first message: no connection, and no memory but the tables of the model.
    sockets = [line["sockets"] for line in small.at("init")]
    failed += check("most sockets of a rank", max(line["sockets"] for line in large.at("init")), 1, max(sockets))
    tables = BYTES_PER_RANK * (large.size - small.size) / 1024
    growth = large.private("init") - small.private("init")
    return failed + check("more private KiB of a rank", growth, -PAGES_KIB, tables + PAGES_KIB)


def compare_simulated():
    """One real process each, whose tables show beside the pages."""
    small, large = (Run(size, 1, 1, "init", NETWORK).run(PROGRAM, PREFIX) for size in (1000, 100000))
    failed = check("messages of rank 0 of 100000", large.mean_count("messages"), 1, small.mean_count("messages") + 2)
    growth = (large.private("init") - small.private("init")) * 1024 / (large.size - small.size)
    return failed + check("bytes of memory for each rank", growth, 0.9 * BYTES_PER_RANK, 1.1 * BYTES_PER_RANK)


def compare_end():
    """Only the first rank of each host makes connections for MPI_Finalize."""
    run = job(RANKS_PER_HOST * FEW_HOSTS, FEW_HOSTS, "end")
    at_init = {line["rank"]: line["sockets"] for line in run.at("init")}
    connections = {line["rank"]: line["sockets"] - at_init[line["rank"]] for line in run.at("end")}
    first = [rank for rank in connections if rank % RANKS_PER_HOST == 0]
    others = [rank for rank in connections if rank % RANKS_PER_HOST != 0]
    print("connections for MPI_Finalize, less that of the launcher:", connections)
    failed = check("ranks that end", len(connections), run.size, run.size)
    failed += check("of first ranks, most", max(connections[rank] for rank in first), 1, run.size)
    return failed + check("of other ranks", max(connections[rank] for rank in others), -1, -1)


def main():
    starts = (lambda: compare_start(job(2, 2, "init"), job(RANKS, RANKS, "init")), compare_simulated)
    failed = sum(all(compare() for _ in range(SERIES)) for compare in starts) + compare_end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
