# SPDX-License-Identifier: BSD-3-Clause
# Prefix: finds the installation of this Python package, made by `make`, `cmake --install` or pip, which puts it in lib/weft
# of an environment.
from __future__ import annotations

import os
import sys
import sysconfig

from weft_mpi.output import Refusal

LIBRARY = "libmpi_abi.so.1"


class NotInstalled(Refusal):
    """No library belongs to this Python package; the text gives a remedy."""


def find() -> str:
    """Returns the folder with bin/, lib/ and include/. Raises NotInstalled."""
    package = os.path.dirname(os.path.abspath(__file__))
    above = os.path.normpath(os.path.join(package, "..", "..", "..", ".."))
    environments = [
        above,  # lib/pythonX.Y/site-packages/weft_mpi
        sysconfig.get_path("data"),
        sys.prefix,
        os.path.expanduser("~/.local"),  # pip install --user
    ]
    candidates = [os.path.join(environment, "lib", "weft") for environment in environments]
    if package.endswith("/share/weft/python/weft_mpi"):
        candidates.insert(0, above)
    for prefix in candidates:
        if os.path.exists(os.path.join(prefix, "lib", LIBRARY)):
            return prefix
    raise NotInstalled(f"{LIBRARY} is not in any of {', '.join(candidates)}: run `make`, or `pip install .`")


def mpiexec() -> str:
    return os.path.join(find(), "bin", "mpiexec")


def program(name: str) -> str:
    """Returns the path of an internal program. Raises NotInstalled."""
    path = os.path.join(find(), "libexec", "weft", name)
    if not os.access(path, os.X_OK):
        raise NotInstalled(f"{path} is missing: this prefix was installed without the benchmarks")
    return path


def sources() -> str:
    """Returns the folder with the benchmark sources, for builds with other MPI libraries. Raises NotInstalled."""
    path = os.path.join(find(), "share", "weft", "bench")
    if not os.path.isdir(path):
        raise NotInstalled(f"{path} is missing: this prefix was installed without the benchmarks' sources")
    return path
