#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Cost of the job's size for one process: messages and bytes to the launcher, memory, time of MPI_Init. A PMI-1 server
# in this program (scale_server.py) counts them. It can simulate a job far larger than the machine with one real host,
# since MPI_Init communicates only with the launcher and the own host. Jobs of real processes on fake hosts:
# scale_hosts.py.
import argparse
import json
import os
import platform
import sys
import tempfile

import scale_hosts
from scale_server import KINDS, Run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = os.path.join(ROOT, "bench", "results", "scale.json")


def measure(program, prefix, size, local, started, stage, network):
    """Returns means over the real processes of a job of `size` processes."""
    run = Run(size, local, started, stage, network).run(program, prefix)
    row = {"ranks": size, "ranks a host": local, "started": started, "network": network or "auto"}
    for kind in KINDS:
        row[kind] = round(run.mean_count(kind), 1)
    for name in ("init", "everyone"):
        if run.at(name):
            row[name] = {
                "seconds": round(run.mean("seconds", name), 4),
                "private KiB": round(run.private(name)),
                "shared KiB": round(run.mean("shared", name)),
            }
    return row


def show(row):
    init = row["init"]
    print(
        "%7d ranks, %3d a host, %3d started, net %-5s %6.1f messages %8.0f bytes (%.1f put, %.1f get, %.1f fence); "
        "MPI_Init %.3f s, %d KiB private, %d KiB shared"
        % (row["ranks"], row["ranks a host"], row["started"], row["network"], row["messages"], row["bytes"],
           row["put"], row["get"], row["barrier_in"], init["seconds"], init["private KiB"], init["shared KiB"]),
        flush=True,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="Measures the cost of the job's size for one process.")
    parser.add_argument("--prefix", required=True, help="prefix of Weft")
    parser.add_argument("--most", type=int, default=64, help="largest job of real processes of one host; 0: none (64)")
    parser.add_argument("--simulated", default="1000,10000,100000,1000000", help="sizes of simulated jobs")
    parser.add_argument("--hosts", default="16,64,256,512", help="ranks of real processes on fake hosts, 8 on each")
    parser.add_argument("--mpich", metavar="PREFIX", help="MPICH: the time to start and end the largest of those jobs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each launcher (3)")
    parser.add_argument("--network", default="", help="value of WEFT_NET")
    parser.add_argument("--json", metavar="FILE", help="result file, such as " + os.path.relpath(RESULT, ROOT))
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    chosen = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    result = {"machine": {"system": platform.platform(), "cores": cpus}, "rows": []}
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        compiler = os.path.join(chosen.prefix, "bin", "mpicc")
        program = scale_hosts.build(compiler, os.path.join(ROOT, "bench", "scale.c"), folder, "scale")
        size = 2
        while size <= chosen.most:
            result["rows"].append(measure(program, chosen.prefix, size, size, size, "everyone", chosen.network))
            show(result["rows"][-1])
            size *= 2
        for size in map(int, filter(None, chosen.simulated.split(","))):
            result["rows"].append(measure(program, chosen.prefix, size, 1, 1, "init", chosen.network))
            show(result["rows"][-1])
        sizes = list(map(int, filter(None, chosen.hosts.split(","))))
        if sizes:
            result["hosts"] = scale_hosts.hosts_rows(program, chosen.prefix, chosen.network, sizes)
            if chosen.mpich:
                result["start"] = scale_hosts.start_rows(folder, chosen.prefix, chosen.network, chosen.mpich, sizes[-1],
                                                         chosen.rounds)  # fmt: skip
            result["faults"] = scale_hosts.fault_rows(folder, chosen.prefix, chosen.network, sizes)
            missed = scale_hosts.judge(result["hosts"], result.get("start"))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 1 if missed and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main())
