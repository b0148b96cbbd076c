# SPDX-License-Identifier: BSD-3-Clause
# The launcher of a running job: its process on this host, the hosts on which it has started ranks, and the remote shell
# that it uses.
import os
import re
from typing import NamedTuple

from weft_mpi.machine import files

NAMES = ("mpiexec.hydra", "prterun", "prte", "mpirun", "mpiexec", "srun")
LISTS = ("-hosts", "-host", "--hosts", "--host", "-H", "--H")
HOST_FILES = (
    "-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "--default-hostfile", "-default-hostfile",
)  # fmt: skip
FILE_VARIABLES = ("HYDRA_HOST_FILE", "PRTE_MCA_prte_default_hostfile")
SHELL_VARIABLES = ("HYDRA_LAUNCHER_EXEC", "PRTE_MCA_plm_ssh_agent")


class Launcher(NamedTuple):
    """`hosts`: empty if it has started ranks on its own host only, or has not said where. `slurm`: the Slurm job."""

    pid: int
    name: str
    hosts: list
    shell: str
    slurm: str | None


def of_process(pid):
    """Returns the launcher that is the process, or has started it on this host; None: there is none."""
    for ancestor in ancestors(pid):
        words = command(ancestor)
        if words and os.path.basename(words[0]) in NAMES:
            return Launcher(ancestor, os.path.basename(words[0]), hosts_of(ancestor, words), *surroundings(ancestor))
    return None


def surroundings(pid):
    """Returns the remote shell and the Slurm job in the environment of a process."""
    variables = environment(pid)
    shell = next((variables[name] for name in SHELL_VARIABLES if variables.get(name)), "ssh")
    return shell.split(":")[0].strip(), variables.get("SLURM_JOB_ID") or variables.get("SLURM_JOBID")


def ancestors(pid):
    """Yields the process and its parents."""
    while pid > 1:
        yield pid
        stat = files.read(f"/proc/{pid}/stat") or ""
        fields = stat.rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0


def command(pid):
    return [word for word in (files.read(f"/proc/{pid}/cmdline") or "").split("\0") if word]


def environment(pid):
    """Returns the variables with which a process was started; empty for processes of other users."""
    entries = (entry.partition("=") for entry in (files.read(f"/proc/{pid}/environ") or "").split("\0"))
    return {name: value for name, equals, value in entries if equals}


def hosts_of(pid, words):
    """Returns the hosts of a launcher: of its remote shells (a large job has a tree of them) and its command line; else
    of its host file."""
    shells = unique(remote_host(command(child)) for child in children(pid))
    given = dict(options(words))
    listed = [re.split(r"[:/]", entry)[0] for name in LISTS for entry in given.get(name, "").split(",")]
    if shells or any(listed):
        return unique(shells + listed)
    variables = environment(pid)
    paths = [given[name] for name in HOST_FILES if name in given]
    paths += [variables[name] for name in FILE_VARIABLES if variables.get(name)]
    return hosts_in(paths[0], pid) if paths else []


def options(words):
    """Yields (option, value) of the words before the program: the first word that no option precedes."""
    option = None
    for word in words[1:]:
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            if equals:
                yield option, value
        elif option is None:
            return
        else:
            yield option, word
            option = None


def hosts_in(path, pid):
    """Returns the hosts of a host file: NAME, NAME:SLOTS or NAME slots=N, one in a line."""
    text = files.read(path if os.path.isabs(path) else f"/proc/{pid}/cwd/{path}") or ""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return unique(line[0].partition(":")[0] for line in lines if line)


def remote_host(words):
    """Returns the host of a command line such as ssh -x HOST COMMAND; None: it is no remote shell."""
    if not words or os.path.basename(words[0]) not in ("ssh", "rsh"):
        return None
    rest = iter(words[1:])
    for word in rest:
        if word in ("-p", "-l", "-i", "-F", "-J", "-o", "-c", "-b", "-E", "-S", "-W"):
            next(rest, None)
        elif not word.startswith("-"):
            return word.rpartition("@")[2]
    return None


def children(pid):
    """Returns the child processes of a process, of all its threads."""
    found = []
    for task in files.entries(f"/proc/{pid}/task"):
        found += (files.read(f"/proc/{pid}/task/{task}/children") or "").split()
    return [int(child) for child in found]


def unique(names):
    return list(dict.fromkeys(name for name in names if name))
