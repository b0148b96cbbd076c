# SPDX-License-Identifier: BSD-3-Clause
# Binary packages of Debian, unpacked to a folder without an installation.
import glob
import os
import subprocess
import sys
import tempfile

LIBRARIES = "usr/lib/x86_64-linux-gnu"
OPENMPI = ["openmpi-bin", "openmpi-common", "libopenmpi3"]
OPENMPI_OPTIONS = "--oversubscribe --mca pml ob1 --mca btl self,vader".split()
SKIPPED = 77


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


class Missing(Exception):
    """A package cannot be fetched; the text gives the reason."""


def fetch(root, packages):
    """Downloads packages and unpacks them to the folder `root`, once. Raises Missing."""
    for name in packages:
        stamp = os.path.join(root, name + ".unpacked")
        if os.path.exists(stamp):
            continue
        os.makedirs(root, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            command = ["apt-get", "-q", "download", name]
            try:
                done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except FileNotFoundError as error:
                raise Missing(str(error)) from None
            archives = glob.glob(folder + "/*.deb")
            if not archives:
                raise Missing("apt-get finds no %s:\n%s" % (name, done.stdout[-500:]))
            subprocess.run(["dpkg", "-x", archives[0], root], check=True)
        open(stamp, "w").close()


def openmpi_variables(root):
    """Returns the environment in which Open MPI runs from the folder."""
    return {
        "OPAL_PREFIX": root + "/usr",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PATH": "%s/usr/bin:%s" % (root, os.environ["PATH"]),
    }
