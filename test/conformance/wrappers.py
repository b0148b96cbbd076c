# SPDX-License-Identifier: BSD-3-Clause
# Folders with the wrappers and the headers of other MPI libraries: set-up's Python packages, and Debian's packages, which
# are unpacked without an installation.
import os
import re

from suite import ROOT, Debian, Missing

LIBRARIES = "usr/lib/x86_64-linux-gnu"
NAMES = ("mpicc", "mpicxx", "mpifort")  # configure looks for the second, without C++ too
PACKAGES = {
    "debian-mpich": ["mpich", "libmpich-dev", "libmpich12"],
    "debian-openmpi": ["openmpi-bin", "openmpi-common", "libopenmpi-dev", "libopenmpi3"],
}
HEADERS = {"debian-mpich": "usr/include/x86_64-linux-gnu/mpich", "debian-openmpi": LIBRARIES + "/openmpi/include"}
# Open MPI's wrapper finds its libraries and its settings by these variables.
OPENMPI = """#!/bin/sh
export OPAL_PREFIX='{root}/usr' LD_LIBRARY_PATH='{root}/{libraries}'
exec '{root}/usr/bin/{name}.openmpi' "$@"
"""
OPENMPI_FORTRAN = "export LIBRARY_PATH='{root}/{libraries}:{root}/{libraries}/openmpi/lib'\n"


def mpich_wrapper(root, name):
    """Text of a wrapper of Debian's MPICH, a script, for the folder of the packages."""
    with open(f"{root}/usr/bin/{name}.mpich", encoding="utf-8") as file:
        return re.sub(r"(?m)^(\w+)=(/usr\b.*)$", lambda found: f"{found[1]}={root}{found[2]}", file.read())


def debian(name, folder):
    """Returns the prefix, with bin and include, of packages that are unpacked in the folder. Raises Missing."""
    prefix, root = (os.path.join(folder, name + end) for end in ("", "-root"))
    if all(os.path.exists(os.path.join(prefix, path)) for path in ("include", "bin/mpifort")):
        return prefix
    Debian(root).fetch(PACKAGES[name])
    os.makedirs(os.path.join(prefix, "bin"), exist_ok=True)
    for wrapper in NAMES:
        path = os.path.join(prefix, "bin", wrapper)
        with open(path, "w", encoding="utf-8") as file:
            if name == "debian-mpich":
                file.write(mpich_wrapper(root, wrapper))
            else:
                text = OPENMPI.replace("exec", OPENMPI_FORTRAN + "exec") if wrapper == "mpifort" else OPENMPI
                file.write(text.format(root=root, libraries=LIBRARIES, name=wrapper))
        os.chmod(path, 0o755)
    if not os.path.lexists(os.path.join(prefix, "include")):
        os.symlink(os.path.join(root, HEADERS[name]), os.path.join(prefix, "include"))
    return prefix


def libraries_of(name, folder):
    """Returns the folder of a library's own libraries, of which programs with C++ or MPICH's mpi_f08 keep one."""
    return (
        os.path.join(folder, name + "-root", LIBRARIES)
        if name in PACKAGES
        else os.path.join(ROOT, "build/tools", name, "lib")
    )


def prefix_of(name, folder):
    """Returns the prefix of a library's wrapper; Debian's is made in the folder. Raises Missing."""
    if name in PACKAGES:
        return debian(name, folder)
    prefix = os.path.join(ROOT, "build", "tools", name)
    if not os.path.exists(os.path.join(prefix, "bin", "mpicc")):
        raise Missing(f"{name} is not in {prefix}")
    return prefix
