#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs jobs of mpiexec --mps on and kills one process of each at a random moment: no process, pipe or folder is left.
# Arguments: emulator, peer, number of jobs.
import collections
import os
import random
import signal
import sys
import time

from mps_support import Site
from support import start, time_limit

LIMIT = 5.0  # seconds until nothing is left
CLIENT_SECONDS = 0.4
# Victim, signals: mpiexec itself, else a process with this word in its command line.
VICTIMS = (
    ("mpiexec", (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
    ("mps-client", (signal.SIGKILL, signal.SIGTERM)),
    ("nvidia-cuda-mps-control", (signal.SIGKILL, signal.SIGTERM)),
    ("nvidia-cuda-mps-server", (signal.SIGKILL,)),
    ("weft-mps", (signal.SIGKILL, signal.SIGSTOP)),
    ("weft-supervisor", (signal.SIGKILL,)),
    ("none", (0,)),
)


def kill(site, job, victim, number):
    """Kills the victim at once when it runs, or some time later. Returns True if it ran."""
    delays = [random.uniform(0, 0.2), 0]
    random.shuffle(delays)
    time.sleep(delays[0])  # may be longer than the victim needs to start
    end = time.monotonic() + time_limit(5)
    pids = [job.pid] if victim == "mpiexec" else site.processes(victim)
    while not pids and job.poll() is None and time.monotonic() < end:
        pids = site.processes(victim)
    time.sleep(delays[1])
    try:
        os.kill(random.choice(pids), number)
    except (ProcessLookupError, IndexError):
        return False
    return True


def main():
    jobs = int(sys.argv[1])
    seed = random.randrange(1 << 30)
    print("seed", seed, flush=True)
    random.seed(seed)
    site = Site()
    counts = collections.Counter()
    failures, longest = 0, 0.0
    for number in range(jobs):
        victim, signals = random.choice(VICTIMS)
        signaled = random.choice(signals)
        with start("--mps", "on", "-n", 2, "mps-client", CLIENT_SECONDS, variables=site.variables()) as job:
            killed = victim != "none" and kill(site, job, victim, signaled)
            if killed and signaled == signal.SIGSTOP:  # a stopped monitor goes on when mpiexec ends
                job.kill()
            job.wait(time_limit(30))
            errors = job.stderr.read().decode()
        counts[f"{victim} {signaled}" if killed else "none"] += 1
        begin = time.monotonic()
        try:
            site.mark.wait_until_gone(time_limit(LIMIT))
        except AssertionError as error:
            failures += 1
            print(f"job {number}, {victim} {signaled}: {error}\n{errors}", flush=True)
            for pid in site.mark.processes():
                os.kill(pid, signal.SIGKILL)
        longest = max(longest, time.monotonic() - begin)
        if not killed and job.returncode != 0:
            failures += 1
            print(f"job {number}: exit code {job.returncode}\n{errors}", flush=True)
        if site.folders():
            failures += 1
            print(f"job {number}, {victim} {signaled}: left {site.folders()}\n{errors}", flush=True)
            for folder in site.folders():
                os.rename(os.path.join(site.tmp, folder), os.path.join(site.root.name, f"left{number}"))
        if number % 100 == 99:
            print(f"{number + 1} jobs, {failures} failures", flush=True)
    print(f"{jobs} jobs, {failures} failures; gone after {longest:.2f} s at most; killed: {dict(counts)}")
    site.close()
    return 1 if failures or len(counts) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
