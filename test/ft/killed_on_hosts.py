#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs killed_on_hosts on three simulated hosts again and again. usage: killed_on_hosts.py PROGRAM SECONDS; TEST_SEED:
# of the first job.
import itertools
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
SECONDS = float(sys.argv.pop(2))
from support import PEER as PROGRAM  # noqa: E402
from support import run  # noqa: E402

RANKS = 5
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 20)))
SETTINGS = {name: value for name, value in os.environ.items() if name.startswith("WEFT_")}

end = time.monotonic() + SECONDS
for seed in itertools.count(SEED):
    command = ["-n", RANKS, "--continue-on-failure", "--timeout", 60, PROGRAM, seed]
    status, output, errors = run(*command, variables={**SETTINGS, "WEFT_FAKE_HOSTS": "3"}, timeout=90)
    if output.count("good") != RANKS - 1 or "BAD" in output:
        sys.exit(f"seed {seed}: exit status {status}\n{output}{errors}")
    if time.monotonic() > end:
        break
print(f"{seed + 1 - SEED} kills")
