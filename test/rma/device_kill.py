#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# usage: device_kill.py PROGRAM RANKS RUNS. The last rank dies while kernels of the others wait for it
# (device_kill.cpp).
import re
import subprocess
import sys

LIMIT_S = 1.0


def main():
    program, ranks, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    longest = 0.0
    for _ in range(runs):
        command = ["mpiexec", "--continue-on-failure", "-n", str(ranks), program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        times = [float(text) for text in re.findall(r"the wait ended after ([0-9.]+) s", done.stdout)]
        if done.returncode == 77:
            return 77
        if len(times) != ranks - 1 or max(times) > LIMIT_S or done.returncode != 137:
            print("status %d\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
            return 1
        longest = max(longest, *times)
    print("%d runs: all kernels ended within %.3f s" % (runs, longest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
