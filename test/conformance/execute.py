# SPDX-License-Identifier: BSD-3-Clause
# Runs the suite's tests under one MPI's launcher and judges them by the rules of the suite's own runtests.
import concurrent.futures
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
LATE = "late"
NOT_BUILT = "not built"

# A test prints one of these and nothing else.
GOOD_LINE = re.compile(r"\s*(No [Ee]rrors|Test Passed)\s*$")
LONGEST = 120  # seconds for one test


@dataclasses.dataclass
class Mpi:
    """One implementation of the standard ABI: the same programs run on each."""

    name: str
    mpiexec: str
    environment: dict


@dataclasses.dataclass
class Outcome:
    verdict: str
    reason: str = ""
    seconds: float = 0.0


def judge(rule, status, output):
    """The reason for which a finished run failed, or an empty string."""
    if rule in ("TestStatus", "TestErrFatal"):  # these are to end the job with an error
        return "" if status != 0 else "exit status 0 where an error was expected"
    lines = output.splitlines()
    strange = [line.strip() for line in lines if not GOOD_LINE.match(line)]
    if strange:
        return next(filter(None, strange), "an empty line of output")
    if not lines:
        return f"no output, exit status {status}"
    if rule == "TestStatusNoErrors":
        return "" if status != 0 else "exit status 0 where an error was expected"
    return "" if status == 0 else f"exit status {status}"


def die_with_parent():
    """In the child: a launcher does not outlive this program."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


def run_test(mpi, test):
    """One test in a process group of its own, which is killed when the time is up."""
    if not os.access(test.program, os.X_OK):
        return Outcome(NOT_BUILT)
    command = [mpi.mpiexec, "-n", str(test.ranks), test.program, *test.arguments]
    limit = min(test.time_limit or LONGEST, LONGEST)
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
        late = not timer.is_alive()
        timer.cancel()
    end_group(process.pid)
    seconds = time.monotonic() - begin
    if late and test.rule != "TestErrFatal":  # the test of the time-out itself
        return Outcome(LATE, f"not finished after {limit} s", seconds)
    reason = "" if late else judge(test.rule, process.returncode, output)
    return Outcome(FAILED if reason else PASSED, reason, seconds)


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_all(mpi, tests, *, jobs, report):
    """Outcomes by the test's name; `report(test, outcome)` is called as they come. What was late has a second try
    by itself."""
    outcomes = {}

    def note(test, outcome):
        outcomes[test.name] = outcome
        report(test, outcome)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pending = {pool.submit(run_test, mpi, test): test for test in tests}
        for done in concurrent.futures.as_completed(pending):
            note(pending[done], done.result())
    for test in tests:
        if outcomes[test.name].verdict == LATE:
            note(test, run_test(mpi, test))
    return outcomes
