#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills a rank, mpiexec or its supervisor at a random moment: no process is left within the limit, and mpiexec reports
the process that was killed, with its exit code, whatever the other ranks noticed first.

usage: killer.py VICTIM [--emulator LIBRARY] [--seconds N] [--kills N] [--seed N] [--workers N] [--limit S]
"""

import argparse
import ctypes
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
from support import PEER as VICTIM  # noqa: E402
from support import Mark, start  # noqa: E402

SIGNALS = (signal.SIGKILL,) * 5 + (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
START_SECONDS = 200  # a job that does not run by then counts as a hang


def networks(emulator):
    """(name, memory, variables) of every network of this machine."""
    found = [
        ("shared memory", "host", {"WEFT_CUDA": "off"}),
        ("shared memory, staged", "host", {"WEFT_CUDA": "off", "WEFT_SHM_SINGLE_COPY": "off"}),
    ]
    hosts = {"WEFT_CUDA": "off", "WEFT_FAKE_HOSTS": "2"}
    for library, name, variables in (
        ("libucp.so.0", "ucx", {"WEFT_NET": "ucx", "UCX_TLS": "tcp"}),
        ("libfabric.so.1", "ofi", {"WEFT_NET": "ofi", "FI_PROVIDER": "tcp"}),
    ):
        try:
            ctypes.CDLL(library)
        except OSError:
            print("no", library)
            continue
        found.append((name, "host", {**hosts, **variables}))
    if emulator:
        found.append(("GPU", "device", {"WEFT_CUDA_DRIVER": os.path.abspath(emulator), "EMUCUDA_DEVICES": "3"}))
    return found


def children(pid):
    """Running child processes."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class Kill:
    """One job and one kill, drawn from the seed."""

    def __init__(self, seed, all_networks, limit):
        draw = random.Random(seed)
        self.seed, self.limit = seed, limit
        self.network, self.memory, self.variables = draw.choice(all_networks)
        self.ranks = draw.choice((2, 3, 4))
        self.target = draw.choice(("rank",) * 6 + ("mpiexec", "supervisor"))
        self.signal = draw.choice(SIGNALS) if self.target == "rank" else signal.SIGKILL
        self.at_start = draw.random() < 0.4  # else after the first messages
        self.delay = draw.uniform(0, 0.3)
        self.draw = draw

    def find(self, job):
        """Pid of the target; None if it does not run at the moment."""
        if self.target == "mpiexec":
            return job.pid
        supervisors = children(job.pid)
        if self.target == "supervisor" or not supervisors:
            return supervisors[0] if supervisors else None
        ranks = children(supervisors[0])
        return self.draw.choice(ranks) if ranks else None

    def run(self):
        """Returns (text of the failure or None, whether a process was killed, seconds until all were gone)."""
        mark = Mark()
        with tempfile.TemporaryFile() as errors:
            job = start("-n", self.ranks, VICTIM, self.memory, variables={**mark.variables, **self.variables},
                        stderr=errors)  # fmt: skip
            with job:
                try:
                    return self.run_job(job, mark, errors)
                finally:
                    job.kill()

    def run_job(self, job, mark, errors):
        def text():
            errors.seek(0)
            return errors.read().decode(errors="replace")

        if not self.at_start:
            timer = threading.Timer(START_SECONDS, job.kill)
            timer.start()
            line = job.stdout.readline()
            timer.cancel()
            if line != b"running\n":
                return f"the job does not run: {line!r} {text()}", False, 0.0
        time.sleep(self.delay)
        pid = self.find(job)
        if pid is None:
            return None, False, 0.0
        try:
            os.kill(pid, self.signal)
        except ProcessLookupError:
            return None, False, 0.0
        begin = time.monotonic()
        try:
            status = job.wait(self.limit + 20)
        except Exception:  # pylint: disable=broad-except
            return f"mpiexec does not end: {text()}", True, self.limit + 20
        try:
            mark.wait_until_gone(20)
        except AssertionError as left:
            return str(left), True, self.limit + 20
        seconds = time.monotonic() - begin
        if seconds > self.limit:
            return f"gone after {seconds:.1f} s: {text()}", True, seconds
        return self.check(pid, status, text()), True, seconds

    def check(self, pid, status, errors):
        if self.target == "mpiexec":
            return None if status == -signal.SIGKILL else f"mpiexec ended with {status}: {errors}"
        wanted = 1 if self.target == "supervisor" else 128 + self.signal
        culprit = "(pid %d) was killed" if self.target == "supervisor" else "(pid %d on "
        reports = [line for line in errors.splitlines() if line.startswith("mpiexec: ")]
        if status != wanted:
            return f"exit code {status}, not {wanted}: {errors}"
        if len(reports) != 1 or culprit % pid not in reports[0]:
            return f"pid {pid} was killed, not reported: {errors}"
        return None

    def __str__(self):
        moment = "start-up" if self.at_start else "traffic"
        return (
            f"seed {self.seed}: {self.target} of {self.ranks} ranks, {self.network}, {self.signal.name}, "
            f"{self.delay:.3f} s after {moment}"
        )


class Campaign:
    """Kills by parallel workers until the time or the number of kills is reached."""

    def __init__(self, options):
        self.options, self.networks = options, networks(options.emulator)
        self.lock, self.next_seed = threading.Lock(), options.seed
        self.kills, self.failures, self.longest, self.per_network = 0, [], 0.0, {}
        self.deadline = time.monotonic() + options.seconds

    def take(self):
        with self.lock:
            if time.monotonic() > self.deadline or (self.options.kills and self.kills >= self.options.kills):
                return None
            self.next_seed += 1
            return self.next_seed - 1

    def work(self):
        while (seed := self.take()) is not None:
            kill = Kill(seed, self.networks, self.options.limit)
            failure, killed, seconds = kill.run()
            with self.lock:
                self.kills += killed
                self.longest = max(self.longest, seconds)
                self.per_network[kill.network] = self.per_network.get(kill.network, 0) + killed
                if failure:
                    self.failures.append(str(kill))
                    print(f"FAILED {kill}\n  {failure}", flush=True)

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.options.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(
            f"{self.kills} kills {self.per_network}, {len(self.failures)} failures, all gone within {self.longest:.2f} s"
        )
        return 1 if self.failures or self.kills == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulator", help="emulated CUDA driver")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--kills", type=int, default=0, help="number of kills; 0: unlimited")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds until all processes are gone")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time()) * 1000
    return Campaign(options).run()


if __name__ == "__main__":
    sys.exit(main())
