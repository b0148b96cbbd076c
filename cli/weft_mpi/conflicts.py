# SPDX-License-Identifier: BSD-3-Clause
# Other packages of MPI in the Python environment of this installation, and commands of other MPI libraries on the PATH.
# pip overwrites files of the same name without a word, and removes them with either package.
from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
from typing import NamedTuple

from weft_mpi import prefix

COMMANDS = ("mpiexec", "mpirun", "mpirun_rsh", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77")
COMMAND = re.compile(rf"^(?:\.\./)*bin/({'|'.join(map(re.escape, COMMANDS))}),", re.MULTILINE)
LIBRARY = re.compile(r"^(?:\.\./)+(?:lib/)?(lib(?:mpi|mpich|mpi_abi)\.so[\d.]*),", re.MULTILINE)
REINSTALL = "pip install --force-reinstall --no-deps weft-mpi"
BEST = "best, an environment for each MPI"


class Conflict(NamedTuple):
    text: str
    remedy: str
    broken: bool  # a command of Weft is missing, or is another package's


def environment() -> str | None:
    """Returns the folder of the Python environment in which pip has installed Weft; None for other installations."""
    root = prefix.find()
    base = os.path.dirname(os.path.dirname(root))
    return base if root == os.path.join(base, "lib", "weft") else None


def is_own(command: str) -> bool:
    """Returns whether a command runs this installation of Weft."""
    root = os.path.realpath(prefix.find())
    path = os.path.realpath(command)
    if path.startswith(root + os.sep):
        return True
    if os.path.dirname(os.path.dirname(path)) != os.path.dirname(os.path.dirname(root)):
        return False
    with open(path, "rb") as file:
        return b"/lib/weft/bin/" in file.read(1000)


def other_packages() -> list[tuple[str, set[str], set[str]]]:
    """Returns (name and version, commands, libraries) of each package of the environment that has an MPI."""
    found = []
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        record = package.read_text("RECORD") or ""
        commands, libraries = set(COMMAND.findall(record)), set(LIBRARY.findall(record))
        if name != "weft-mpi" and (commands or libraries):
            found.append((f"{name} {package.version}", commands, libraries))
    return sorted(found)


def in_environment(base: str) -> list[Conflict]:
    bin_folder = os.path.join(base, "bin")
    packages = other_packages()
    missing = [name for name in COMMANDS if not os.path.exists(os.path.join(bin_folder, name))]
    foreign = [name for name in COMMANDS if name not in missing and not is_own(os.path.join(bin_folder, name))]
    remedy = f"{REINSTALL}, or put {prefix.find()}/bin first on the PATH; {BEST}"
    conflicts = []
    for package, commands, libraries in packages:
        taken = [name for name in foreign if name in commands]
        shared = [name for name in COMMANDS if name in commands and name not in taken]
        text = f"{package} is in this environment, too ({', '.join(sorted(libraries)) or 'no library'})"
        if taken:
            conflicts.append(Conflict(f"{text}: {', '.join(taken)} in {bin_folder} are not Weft's", remedy, True))
        elif shared:
            after = f"after `pip uninstall` of either, install the other one again (Weft: {REINSTALL}); {BEST}"
            conflicts.append(Conflict(f"{text}: {', '.join(shared)} in {bin_folder} are Weft's now", after, False))
        else:
            conflicts.append(Conflict(text, BEST, False))
    rest = [name for name in foreign if not any(name in commands for _, commands, _ in packages)]
    if missing or rest:
        names = ", ".join(missing + rest)
        text = f"{names} in {bin_folder}: missing or not Weft's, since another package was removed or installed"
        conflicts.append(Conflict(text, remedy, True))
    return conflicts


def on_path() -> list[Conflict]:
    command = shutil.which("mpiexec")
    if command is None or is_own(command):
        return []
    remedy = f"start programs of Weft with {prefix.mpiexec()}, or put its folder first on the PATH"
    return [Conflict(f"the mpiexec of the PATH is not this Weft's: {command}", remedy, False)]


def find() -> list[Conflict]:
    base = environment()
    return (in_environment(base) if base else []) + on_path()
