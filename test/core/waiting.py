#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Ranks that outnumber the cores sleep in long waits. usage: waiting.py PROGRAM (waiting.c)
import os
import subprocess
import sys

MPIEXEC = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
RANKS, SECONDS, CORES = 48, 6, 2
MAX_WAKE_UPS, BETWEEN_HOSTS = 75, 150  # of a rank in a second; a rank that sleeps 1 ms at a time has up to 900


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    failed = False
    for call, hosts in (("recv", None), ("barrier", None), ("threads", None), ("recv", "2")):
        variables = {} if hosts is None else {"WEFT_FAKE_HOSTS": hosts}
        done = subprocess.run([MPIEXEC, "-n", str(RANKS), sys.argv[1], str(SECONDS), call], env={**os.environ, **variables},
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        if hosts is not None and "there is no network" in done.stderr:
            print("between hosts: skipped, no network library")
            continue
        print(f"{call}, {hosts or 1} hosts: {done.stdout.strip()} {done.stderr.strip()}")
        failed |= done.returncode != 0 or float(done.stdout.split()[0]) > (BETWEEN_HOSTS if hosts else MAX_WAKE_UPS)
    return failed


if __name__ == "__main__":
    sys.exit(main())
