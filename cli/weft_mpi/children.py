# SPDX-License-Identifier: BSD-3-Clause
# Child processes, run with a timeout to capture their output. A crash or a hang is a regular outcome.
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import NamedTuple

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "isolated", "run.py")
# Variables set by launchers. They are removed for child processes, which must be singletons or separate jobs.
LAUNCHER_PREFIXES = ("PMI_", "PMI2_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "PRTE_MCA_", "OMPI_MCA_ess")
LAUNCHER_NAMES = (
    "WEFT_JOB_ID", "WEFT_JOB_SOCKET", "WEFT_LAUNCH_CONTINUE_ON_FAILURE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS", "LOCAL_RANK",
)  # fmt: skip


class Outcome(NamedTuple):
    """Outcome of a program. `signal`: name of the signal that killed it, also if reported by its launcher."""

    status: int
    signal: str | None
    timed_out: bool
    out: str
    err: str

    @property
    def good(self) -> bool:
        return self.status == 0 and not self.timed_out

    def reason(self) -> str:
        """Returns the outcome as one line of text."""
        if self.timed_out:
            return "it hung and was killed"
        line = self.error_line()
        if self.signal:
            return f"it crashed ({self.signal})"
        return f"exit status {self.status}" + (f": {line}" if line else "")

    def slow_paths(self) -> list[str]:
        """Returns the distinct slow path reports of the library's log, without the rank prefix."""
        found = [line[line.index("slow path") :] for line in self.err.splitlines() if "slow path" in line]
        return list(dict.fromkeys(found))

    def error_line(self) -> str:
        """Returns the most informative line of standard error, at most 200 characters."""
        lines = [line.strip() for line in self.err.splitlines() if any(c.isalpha() for c in line)]
        errors = [line for line in lines if "rror" in line or "ailed" in line or "annot" in line]
        return (errors or lines or [""])[0][:200]


def python(module: str, *words: str) -> list[str]:
    """Returns the command that runs a module of this package without importing from the current directory."""
    return [sys.executable, RUN, module, *words]


def absolute_entries(text: str | None) -> str | None:
    """Returns PYTHONPATH without empty and relative entries, which name the current directory; None if empty."""
    return os.pathsep.join(filter(os.path.isabs, (text or "").split(os.pathsep))) or None


def clean_environment(**changes: str | None) -> dict[str, str]:
    """Returns the environment without launcher variables and relative entries of PYTHONPATH, and with `changes`; the
    value None removes a variable."""
    changes.setdefault("PYTHONPATH", absolute_entries(os.environ.get("PYTHONPATH")))
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHER_PREFIXES) and name not in LAUNCHER_NAMES
    }
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return environment


def run(
    words: list[str],
    seconds: float,
    environment: dict[str, str] | None = None,
    cwd: str | None = None,
    errors: str = "replace",
) -> Outcome:
    """Runs a command. After `seconds` the command and its process group are killed. `errors`: of the decoded output."""
    try:
        child = subprocess.Popen(
            words,
            env=clean_environment() if environment is None else environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors=errors,
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(127, None, False, "", f"{words[0]}: {error.strerror}")
    timed_out = False
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        end(child)
        out, err = child.communicate()
    except BaseException:
        end(child)
        child.wait()
        raise
    end(child)
    return Outcome(child.returncode, None if timed_out else signal_of(child.returncode, err + out), timed_out, out, err)


def end(child: subprocess.Popen) -> None:
    """Kills the process group of a command."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def signal_of(status: int, text: str) -> str | None:
    """Returns the signal name of an exit status: negative, a shell's 128 + n, or from the launcher's output."""
    number = -status if status < 0 else status - 128 if 128 < status < 128 + 65 else 0
    if number:
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name
    for words, name in (("egmentation fault", "SIGSEGV"), ("Bus error", "SIGBUS"), ("Aborted (signal", "SIGABRT")):
        if status != 0 and words in text:
            return name
    return None
