#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Jobs of four ranks of which two are killed at random times, while all create communicators of GPU streams.
# usage: creation_kill.py PROGRAM JOBS: that of creation.cpp
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, run  # noqa: E402

DRIVER = {name: value for name, value in os.environ.items() if name.startswith(("WEFT_CUDA_DRIVER", "EMUCUDA_"))}


def main():
    jobs, bad = int(sys.argv[1]), 0
    for seed in range(jobs):
        mark = Mark()
        command = ["-n", 4, "--continue-on-failure", "--timeout", 240, PROGRAM, "kill", 2, seed]
        status, output, errors = run(*command, variables={**DRIVER, **mark.variables}, timeout=300)
        if output.split() != ["good"] or status != 137 or mark.processes():
            bad += 1
            print(f"seed {seed}: status {status}, processes {mark.processes()}\n{output}{errors}", flush=True)
    print(f"{jobs} jobs with two kills each, {bad} bad")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
