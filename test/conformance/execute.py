# SPDX-License-Identifier: BSD-3-Clause
# Runs tests of the suite under the launcher of one MPI; verdicts follow the rules of the suite's runtests.
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import os
import re
import signal
import subprocess
import threading
import time

PASSED = "passed"
FAILED = "failed"
TIMED_OUT = "timeout"
NOT_BUILT = "not built"

# A passed test prints one of these lines and nothing else.
GOOD_LINE = re.compile(r"\s*(No [Ee]rrors|Test Passed)\s*$")
# Weft's launcher reports the first failure of a job that goes on.
DEATH = re.compile(r"mpiexec: rank \d+ \(pid \d+ on \S+\) (exited with code \d+|was killed by signal .*)$")
MAX_SECONDS = 120  # per test


@dataclasses.dataclass
class Mpi:
    """An implementation of the standard ABI; all implementations run the same programs."""

    name: str
    mpiexec: str
    environment: dict


@dataclasses.dataclass
class Outcome:
    verdict: str
    reason: str = ""
    seconds: float = 0.0


def failure_reason(rule, status, output):
    """Why a finished run failed; empty if it passed."""
    if rule in ("TestStatus", "TestErrFatal"):  # expect the job to fail
        return "" if status != 0 else "exit status 0 where an error was expected"
    lines = output.splitlines()
    if rule == "TestStatusNoErrors":
        lines = [line for line in lines if not DEATH.match(line)]
    strange = [line.strip() for line in lines if not GOOD_LINE.match(line)]
    if strange:
        return next(filter(None, strange), "an empty line of output")
    if not lines:
        return f"no output, exit status {status}"
    if rule == "TestStatusNoErrors":
        return "" if status != 0 else "exit status 0 where an error was expected"
    return "" if status == 0 else f"exit status {status}"


def die_with_parent():
    """In the child: kills the launcher when this program exits."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


def run_test(mpi, test):
    """Runs one test in its own process group, which is killed on timeout."""
    if not os.access(test.program, os.X_OK):
        return Outcome(NOT_BUILT)
    command = [mpi.mpiexec, *test.launcher, "-n", str(test.ranks), test.program, *test.arguments]
    limit = min(test.time_limit or MAX_SECONDS, MAX_SECONDS)
    begin = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=os.path.dirname(test.program),
        env=dict(os.environ, **mpi.environment, **test.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=die_with_parent,
    ) as process:
        timer = threading.Timer(limit, end_group, [process.pid])
        timer.start()
        output = process.stdout.read().decode(errors="replace")
        process.wait()
        timed_out = not timer.is_alive()
        timer.cancel()
    end_group(process.pid)
    seconds = time.monotonic() - begin
    if timed_out and test.rule != "TestErrFatal":  # this test expects the timeout
        return Outcome(TIMED_OUT, f"not finished after {limit} s", seconds)
    reason = "" if timed_out else failure_reason(test.rule, process.returncode, output)
    return Outcome(FAILED if reason else PASSED, reason, seconds)


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_all(mpi, tests, *, jobs, report):
    """Returns outcomes by test name and calls `report(test, outcome)` for each. A test that timed out is run again
    alone."""
    outcomes = {}

    def note(test, outcome):
        outcomes[test.name] = outcome
        report(test, outcome)

    files = threading.Lock()  # programs of f77/io and f90/io share the name of their file

    def run(test):
        with files if re.match(r"f\d\d/io/", test.name) else contextlib.nullcontext():
            return run_test(mpi, test)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pending = {pool.submit(run, test): test for test in tests}
        for done in concurrent.futures.as_completed(pending):
            note(pending[done], done.result())
    for test in tests:
        if outcomes[test.name].verdict == TIMED_OUT:
            note(test, run_test(mpi, test))
    return outcomes
