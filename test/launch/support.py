# SPDX-License-Identifier: BSD-3-Clause
# Runs mpiexec and detects processes left behind.
import os
import shutil
import subprocess
import sys
import time
import uuid

MPIEXEC = os.environ.get("TEST_MPIEXEC") or os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
PEER = os.path.abspath(sys.argv.pop(1))
CORES = len(os.sched_getaffinity(0))


def time_limit(seconds):
    """The limit for what takes at most `seconds` on idle cores: longer on busy ones, and under sanitizers."""
    sanitized = 10 if "TEST_SANITIZED" in os.environ else 1
    return seconds * sanitized * max(1, os.getloadavg()[0] / CORES)


def clean_environment(**variables):
    """The environment without launcher variables, plus the given ones."""
    prefixes = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "HYDI_", "MPI_LOCAL", "WEFT_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    environment.update(variables)
    return environment


def start(*arguments, launcher=(MPIEXEC,), variables=None, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("env", clean_environment(**(variables or {})))
    return subprocess.Popen([*launcher, *map(str, arguments)], **options)


def run(*arguments, timeout=60, **options):
    """(exit code, output, errors) of an mpiexec command."""
    given = options.pop("input", None)
    if given is not None:
        options["stdin"] = subprocess.PIPE
    with start(*arguments, text=True, **options) as process:
        try:
            output, errors = process.communicate(given, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, output, errors


def shell(script):
    return ("sh", "-c", script)


class Mark:
    """Marks all processes of one job by an environment variable, by which they are found."""

    def __init__(self):
        self.value = uuid.uuid4().hex

    @property
    def variables(self):
        return {"LAUNCH_TEST_MARK": self.value}

    def processes(self):
        """Pids of the running marked processes."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    marked = self.value.encode() in file.read()
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    dead = file.read().rpartition(")")[2].split()[0] in "ZX"
            except OSError:
                continue
            if marked and not dead:
                found.append(int(pid))
        return found

    def wait_for(self, count, seconds=10.0):
        """Waits until at least count processes run."""
        end = time.monotonic() + seconds
        while len(self.processes()) < count:
            if time.monotonic() > end:
                raise AssertionError(f"only {len(self.processes())} of {count} processes have started")
            time.sleep(0.02)

    def wait_until_gone(self, seconds):
        """Returns the seconds until no process is left; fails after the given time."""
        begin = time.monotonic()
        while self.processes():
            if time.monotonic() - begin > seconds:
                raise AssertionError(f"still alive: {[command_of(pid) for pid in self.processes()]}")
            time.sleep(0.02)
        return time.monotonic() - begin


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"{pid} {file.read().replace(bytes(1), b' ').decode(errors='replace')}"
    except OSError:
        return f"{pid} (gone)"


def hydras():
    """Paths of mpiexec.hydra: on PATH and in TEST_HYDRA (separated by colons)."""
    candidates = [shutil.which("mpiexec.hydra"), *os.environ.get("TEST_HYDRA", "").split(":")]
    return [path for path in candidates if path and os.path.exists(path)]
