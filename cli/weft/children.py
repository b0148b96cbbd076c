# SPDX-License-Identifier: BSD-3-Clause
# Children: programs that are run for what they print, within a time; a crash or a hang is a result.
import contextlib
import os
import signal
import subprocess
import sys
from collections import namedtuple

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "isolated", "run.py")
# What launchers promise a process: a program that a rank starts has to be a job of its own.
LAUNCHER_PREFIXES = ("PMI_", "PMI2_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "PRTE_MCA_", "OMPI_MCA_ess")
LAUNCHER_NAMES = ("WEFT_JOB_ID", "SLURM_STEP_NUM_TASKS", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "LOCAL_RANK")


class Outcome(namedtuple("Outcome", "status signal timed_out out err")):
    """How a program ended; `signal`: the name of what killed it, or of what its launcher says killed it."""

    @property
    def good(self):
        return self.status == 0 and not self.timed_out

    def reason(self):
        """One line for people."""
        if self.timed_out:
            return "it hung and was killed"
        line = self.last_words()
        if self.signal:
            return "it crashed (%s)" % self.signal
        return "exit status %d%s" % (self.status, ": " + line if line else "")

    def last_words(self):
        """The line of its errors that says most."""
        lines = [line.strip() for line in self.err.splitlines() if any(c.isalpha() for c in line)]
        telling = [line for line in lines if "rror" in line or "ailed" in line or "annot" in line]
        return (telling or lines or [""])[0][:200]


def python(module, *words):
    """The command that runs a module of this package as a program; it imports nothing from the current directory."""
    return [sys.executable, RUN, module, *words]


def absolute_entries(text):
    """PYTHONPATH without empty and relative entries, which name the current directory; None when none is left."""
    return os.pathsep.join(filter(os.path.isabs, (text or "").split(os.pathsep))) or None


def clean_environment(**changes):
    """This environment without a launcher's promises and without the current directory in PYTHONPATH, and with changes;
    None removes."""
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


def run(words, seconds, environment=None, cwd=None):
    """Runs a command; it and all that it started are killed when the time is over."""
    try:
        child = subprocess.Popen(
            words,
            env=clean_environment() if environment is None else environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(127, None, False, "", "%s: %s" % (words[0], error.strerror))
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


def end(child):
    """Kills a command's session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def signal_of(status, text):
    """The name of the signal behind an exit status: the child's own, a shell's 128 + n, or what a launcher prints."""
    number = -status if status < 0 else status - 128 if 128 < status < 128 + 65 else 0
    if number:
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name
    for words, name in (("egmentation fault", "SIGSEGV"), ("Bus error", "SIGBUS"), ("Aborted (signal", "SIGABRT")):
        if status != 0 and words in text:
            return name
    return None
