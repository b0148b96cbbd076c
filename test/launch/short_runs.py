#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Starts and ends many short jobs on a busy machine: several at once, beside processes that compute. Each must end by
# itself with exit code 0. The calls of the ranks and the stacks of all threads of a job that has not ended are printed.
# A job that ends later was starved by other programs: it is counted as slow, not as failed.
# usage: short_runs.py FOLDER RUNS [BUSY]: folder of the benchmarks; processes that compute. TEST_SEED: of the choice of
# programs.
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from support import CORES, MPIEXEC, Mark, command_of, start
from support import PEER as PROGRAMS

LIMIT_S = 120  # a job takes some 0.1 s on an idle core
LAST_LIMIT_S = 240  # after the evidence
JOBS_AT_ONCE = 4 * CORES
MESSAGES = ("-c", "-i", "3", "-x", "1")
COMMANDS = (  # (ranks, program, arguments): start and end alone, messages in flight to the end, sessions, collectives
    (2, "hello", ()),
    (4, "hello", ()),
    (2, "bw", (*MESSAGES, "-m", "1:64K")),
    (2, "bw", (*MESSAGES, "-m", "1:64K", "-I")),
    (2, "bibw", (*MESSAGES, "-m", "1:256K")),
    (4, "mbw_mr", ("-i", "3", "-x", "1", "-m", "1:16K")),
    (3, "allreduce", (*MESSAGES, "-m", "1:16K")),
    (3, "alltoall", (*MESSAGES, "-m", "1:4K")),
    (2, "put_latency", ("-i", "3", "-x", "1", "-m", "1:1K")),
)


def text_of(*command):
    """Returns the output of a command, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return done.stdout + done.stderr


def stacks(pid):
    """Returns the stacks of a process's threads; without gdb, their states and kernel functions."""
    if shutil.which("gdb"):
        return text_of("gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace")
    lines = []
    threads = os.listdir(f"/proc/{pid}/task") if os.path.isdir(f"/proc/{pid}/task") else []
    for thread in threads:
        for name in ("wchan", "syscall", "status"):
            lines.append(f"{thread} {name}: " + text_of("cat", f"/proc/{pid}/task/{thread}/{name}"))
    return "\n".join(lines)


def evidence(mark, program):
    """Returns what a job does that has not ended: the calls of its ranks, the stacks of its processes, ranks first."""
    processes = {pid: command_of(pid) for pid in mark.processes()}
    ranks = [pid for pid, command in processes.items() if command.split()[1] == program]
    parts = [text_of(MPIEXEC, "--waits", str(pid)) for pid in ranks[:1]]
    for pid in sorted(processes, key=lambda pid: pid not in ranks):
        parts.append(f"{processes[pid]}\n{stacks(pid)}")
    return "\n".join(parts)


class Slow(str):
    """What a job did that ended late."""


def run(number, seed):
    """Runs one job; returns an error text, Slow or None."""
    ranks, program, arguments = random.Random(seed + number).choice(COMMANDS)
    mark = Mark()
    path = os.path.join(PROGRAMS, program)
    with start("-n", ranks, path, *arguments, variables=mark.variables, text=True) as job:
        try:
            output, errors = job.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            found = f"run {number}, {ranks} x {program}, has not ended within {LIMIT_S} s\n{evidence(mark, path)}"
            begin = time.monotonic()
            try:
                output, errors = job.communicate(timeout=LAST_LIMIT_S)
            except subprocess.TimeoutExpired:
                for pid in {job.pid, *mark.processes()}:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return found
            if job.returncode == 0:
                return Slow(f"{found}\nrun {number} has ended {time.monotonic() - begin:.0f} s later")
    if job.returncode != 0:
        return f"run {number}, {ranks} x {program}: exit code {job.returncode}\n{output}{errors}"
    return None


def main():
    runs = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4 * CORES
    seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed, flush=True)
    files = set(os.listdir("/dev/shm"))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    begin, failed, slow = time.monotonic(), 0, 0
    try:
        with concurrent.futures.ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
            for error in pool.map(lambda number: run(number, seed), range(runs)):
                if error:
                    slow += isinstance(error, Slow)
                    failed += not isinstance(error, Slow)
                    print(error, flush=True)
    finally:
        for process in busy:
            process.kill()
    left = {name for name in set(os.listdir("/dev/shm")) - files if name.startswith("weft")}
    load = os.getloadavg()[0]
    seconds = time.monotonic() - begin
    print(f"{runs} runs in {seconds:.0f} s, load {load:.0f}: {failed} failed, {slow} slow; left: {sorted(left)}")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
