#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs blocking_calls on the path that the settings in the environment select. usage: blocking_calls.py PROGRAM
# revoke|kill
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
WHAT = sys.argv.pop(2)
from support import PEER as PROGRAM  # noqa: E402
from support import run, time_limit  # noqa: E402

RANKS = 6 if WHAT == "kill" else 2
KILLS = RANKS - 1  # of a job
SETTINGS = {name: value for name, value in os.environ.items() if name.startswith("WEFT_")}


def job(*arguments):
    """(number of wrong calls, number of all)."""
    command = ["-n", RANKS, "--continue-on-failure", "--timeout", 200, PROGRAM, WHAT, *arguments]
    variables = {**SETTINGS, "TEST_LIMIT": str(time_limit(1))}
    status, output, errors = run(*command, variables=variables, timeout=240)
    last = output.strip().rpartition("\n")[2].split()
    if last[1:2] != ["of"] or last[3:] != ["calls", "wrong"]:
        sys.exit(f"calls {arguments}: exit status {status}\n{output}{errors}")
    if last[0] != "0":
        print(output, flush=True)
    return int(last[0]), int(last[2])


def main():
    if WHAT != "kill":
        return job()
    wrong, total = job(0, KILLS)
    for first in range(KILLS, total, KILLS):
        wrong += job(first, KILLS)[0]
    return wrong, total


wrong_calls, calls = main()
print(f"{wrong_calls} of {calls} calls wrong")
sys.exit(1 if wrong_calls else 0)
