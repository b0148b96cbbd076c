# SPDX-License-Identifier: BSD-3-Clause
# Binary packages of Debian, unpacked to a folder without an installation.
import dataclasses
import glob
import os
import subprocess
import sys
import tempfile

LIBRARIES = "usr/lib/x86_64-linux-gnu"
OPENMPI = ["openmpi-bin", "openmpi-common", "libopenmpi3"]
OPENMPI_OPTIONS = "--oversubscribe --mca pml ob1 --mca btl self,vader".split()
SKIPPED = 77


@dataclasses.dataclass
class Program:
    packages: str
    run: str  # shell commands; $RUN starts 4 ranks; the programs of the packages are on PATH
    keep: str  # regular expression of the lines that are compared
    tolerance: float = 0.0
    mpi: str = "openmpi"


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


class Missing(Exception):
    """A package cannot be fetched; the text gives the reason."""


def fetch(root, packages):
    """Downloads packages and unpacks them to the folder `root`, once. Raises Missing."""
    stamps = {name: os.path.join(root, name + ".unpacked") for name in packages}
    missing = [name for name, stamp in stamps.items() if not os.path.exists(stamp)]
    if not missing:
        return
    os.makedirs(root, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = ["apt-get", "-q", "download", *missing]
        try:
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError as error:
            raise Missing(str(error)) from None
        for name in missing:
            archives = glob.glob(f"{folder}/{name}_*.deb")
            if not archives:
                raise Missing(f"apt-get finds no {name}:\n{done.stdout[-500:]}")
            subprocess.run(["dpkg", "-x", archives[0], root], check=True)
            open(stamps[name], "w").close()


def openmpi_variables(root):
    """Returns the environment in which Open MPI runs from the folder."""
    return {
        "OPAL_PREFIX": root + "/usr",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PATH": "%s/usr/bin:%s" % (root, os.environ["PATH"]),
    }
