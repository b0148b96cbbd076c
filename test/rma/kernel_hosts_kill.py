#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# usage: kernel_hosts_kill.py PROGRAM RANKS RUNS. The last rank dies at a random time while kernels of the others
# wait for it (kernel_hosts_kill.cpp). The limits are for a machine that runs much else.
import random
import subprocess
import sys

LIMIT_S = 300


def main():
    program, ranks, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for run in range(runs):
        microseconds = str(random.randrange(0, 200000))
        command = ["mpiexec", "--continue-on-failure", "-n", str(ranks), program, microseconds]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.stdout.count("the waits ended") != ranks - 1 or done.returncode != 137:
            print("run %d, killed after %s us: status %d" % (run, microseconds, done.returncode))
            print("%s\n%s" % (done.stdout, done.stderr))
            return 1
    print("%d runs: all waits ended and named the rank" % runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
