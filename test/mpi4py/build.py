#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds mpi4py with the prefix's mpicc into a folder, unless it is up to date with the headers and Python.
# usage: build.py SOURCE FOLDER; status 77 if the source or the Python headers are missing.
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig

SKIPPED = 77
PREFIX = os.environ["MPI_PREFIX"]
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "setup")
sys.path.insert(0, TOOLS)
from packages import Missing, Pip  # noqa: E402


def fingerprint():
    """Identifies the inputs of the build."""
    digest = hashlib.sha256()
    for header in ("mpi.h", "weft.h"):
        with open(os.path.join(PREFIX, "include", header), "rb") as file:
            digest.update(file.read())
    return f"{digest.hexdigest()} {sys.version} {PREFIX}"


def main():
    source, folder = sys.argv[1:3]
    stamp = os.path.join(folder, "stamp")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == fingerprint():
                return 0
    if not os.path.exists(os.path.join(source, "setup.py")):
        print(f"skipped: no source of mpi4py in {source}")
        return SKIPPED
    include = sysconfig.get_path("include")
    fetched = os.path.join(os.path.dirname(source), "headers")  # by set-up
    flags = ""
    if not os.path.exists(os.path.join(include, "Python.h")):
        if not os.path.exists(fetched + include + "/Python.h"):
            print("skipped: no Python.h (Debian, Ubuntu: python3-dev)")
            return SKIPPED
        flags = f" -I{fetched}{include} -I{fetched}/usr/include"
    try:
        pip = Pip(os.path.join(folder, "pip")).find()
    except Missing as error:
        print(f"skipped: {error}")
        return SKIPPED
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(os.path.join(source, "build"), ignore_errors=True)  # objects that setuptools would take again
    command = [*pip, "install", "-q", "--no-deps", "--no-cache-dir", "--target", folder, source]
    # weft.h: with the functions of fault tolerance.
    environment = dict(
        os.environ,
        MPICC=os.path.join(PREFIX, "bin", "mpicc"),
        CFLAGS="-O0 -include weft.h" + flags,
        PIP_ROOT_USER_ACTION="ignore",
    )
    status = subprocess.run(command, env=environment, check=False).returncode
    if status == 0:
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(fingerprint())
    return status


if __name__ == "__main__":
    sys.exit(main())
