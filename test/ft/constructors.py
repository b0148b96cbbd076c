#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Kills a rank in each call of the program `constructors`. usage: constructors.py PROGRAM SEEDS
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
SEEDS = int(sys.argv.pop(2))
from support import PEER as PROGRAM  # noqa: E402
from support import run, time_limit  # noqa: E402

SETTINGS = {name: value for name, value in os.environ.items() if name.startswith("WEFT_")}


def job(number, seed):
    """The lines that the job prints, and its errors."""
    limit = int(time_limit(20))
    command = ["-n", 4, "--continue-on-failure", "--timeout", limit, PROGRAM, "kill", number, seed]
    _, output, errors = run(*command, variables=SETTINGS, timeout=2 * limit)
    return output.split(), errors


wrong = number = 0
while job(number, 0)[0] != ["none"]:
    for seed in range(SEEDS):
        output, errors = job(number, 100 * number + seed)
        if output != ["good"]:
            wrong += 1
            print(f"call {number}, seed {100 * number + seed}: {output}\n{errors}", flush=True)
    number += 1
print(f"{wrong} of {number * SEEDS} jobs wrong")
sys.exit(1 if wrong or number == 0 else 0)
