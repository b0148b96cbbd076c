# SPDX-License-Identifier: BSD-3-Clause
# Files of the launcher that `weft hosts --setup` installs. mpiexec reads them, too (src/mpiexec/ssh_launcher.hpp).
from __future__ import annotations

import os

from weft_mpi import output
from weft_mpi.output import Refusal

PROGRAMS = ("mpiexec.hydra", "hydra_pmi_proxy")


def folder() -> str:
    """Returns the launcher's folder, which has the same path on all hosts. Raises Refusal without a home folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        home = os.environ.get("HOME")
        if not home:
            raise Refusal("HOME is not set: set it, or XDG_DATA_HOME, to a folder that exists on all hosts")
        data = os.path.join(home, ".local", "share")
    return os.path.join(data, "weft", "launcher")


def hydra() -> str:
    return os.path.join(folder(), "bin", "mpiexec.hydra")


def lines(name: str) -> list[str]:
    """Returns the lines of a file of the folder; empty if there is none."""
    try:
        with open(os.path.join(folder(), name), encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if line]
    except FileNotFoundError:
        return []


def hosts() -> list[str]:
    return lines("hosts")


def version() -> str | None:
    """Returns the name and version of the installed launcher; None if none is installed."""
    return next(iter(lines("version")), None) if os.access(hydra(), os.X_OK) else None


def write_hosts(names: list[str]) -> None:
    output.write_file(os.path.join(folder(), "hosts"), "".join(f"{name}\n" for name in names))
