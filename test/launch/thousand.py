#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs a 4-rank MPI program many times, kills every tenth run at a random moment, and counts remaining processes and
# files. Arguments: program, number of runs.
import os
import random
import signal
import sys
import time

from support import PEER as PROGRAM
from support import Mark, clean_environment, start


def shared_files():
    return set(os.listdir("/dev/shm"))


def main():
    runs = int(sys.argv[1])
    seed = random.randrange(1 << 30)
    print("seed", seed, flush=True)
    random.seed(seed)
    before = shared_files()
    mark = Mark()
    killed = failed = 0
    longest = 0.0
    for run in range(runs):
        kill = run % 10 == 9
        with start("-n", 4, PROGRAM, 500 if kill else 3, env=clean_environment(**mark.variables)) as job:
            if kill:
                time.sleep(random.uniform(0, 0.25))
                victim = random.choice([job.pid, *mark.processes()])
                try:
                    os.kill(victim, random.choice([signal.SIGKILL, signal.SIGTERM]))
                except ProcessLookupError:
                    pass
                else:
                    killed += 1
            status = job.wait(60)
            errors = job.stderr.read().decode()
        if not kill and status != 0:
            failed += 1
            print(f"run {run}: exit code {status}\n{errors}", flush=True)
        longest = max(longest, mark.wait_until_gone(2.0))
    left = shared_files() - before
    print(
        f"{runs} runs, {killed} killed, {failed} failed; all gone after {longest:.2f} s at most; left: {sorted(left)}"
    )
    return 1 if failed or left or killed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
