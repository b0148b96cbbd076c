#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs with the modules of Debian's Open MPI and MPICH, linked with their libraries, on Weft: modules.py FOLDER
import os
import shutil
import subprocess
import sys

import debian

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = {"mpi": [], "mpi_f08": ["-DF08"]}
PACKAGES = {"openmpi": ["libopenmpi3", "libopenmpi-dev"], "mpich": ["libmpich12", "libmpich-dev"]}
NAMES = {  # in the order of the MPI's mpifort
    "openmpi": ["mpi_usempif08.so.40", "mpi_usempi_ignore_tkr.so.40", "mpi_mpifh.so.40", "mpi.so.40"],
    "mpich": ["mpichfort.so.12", "mpich.so.12"],
}


def module_folder(root, mpi):
    """The folder of modules that this gfortran reads, whose version of modules is in its name."""
    parent = f"{root}/{debian.LIBRARIES}/fortran"
    known = sorted(name for name in os.listdir(parent) if name.startswith("gfortran-mod-"))
    return f"{parent}/{known[-1]}/{mpi}"


def run(root, mpi, module):
    """Builds the program and runs it with 1 and 4 ranks."""
    mpiexec = os.environ["MPI_PREFIX"] + "/bin/mpiexec"
    libraries, program = f"{root}/{debian.LIBRARIES}", f"{root}/{mpi}_with_{module}"
    command = ["gfortran", "-g", "-fbacktrace", f"-D{mpi.upper()}", "-DMODULE=" + module, *FLAGS[module], "-J", root]
    command += ["-I", module_folder(root, mpi), HERE + "/modules.F90", "-o", program]
    command += ["-Wl,--no-as-needed,--allow-shlib-undefined", *(f"{libraries}/lib{name}" for name in NAMES[mpi])]
    subprocess.run(command, check=True)
    # Programs with mpi_f08 or MPI_Sizeof of MPICH keep its library for Fortran.
    variables = dict(os.environ, LD_LIBRARY_PATH=libraries)
    for ranks in ("1", "4"):
        subprocess.run([mpiexec, "-n", ranks, program], check=True, timeout=100, env=variables)
    done = subprocess.run(
        [mpiexec, "--run-info", program], check=True, stdout=subprocess.PIPE, text=True, env=variables
    )
    assert done.stdout.count("missing: none") == len(NAMES[mpi]), done.stdout
    own = f"{libraries}/libmpichfort.so.12, its own, for objects of its modules\n"
    assert (own in done.stdout) == (mpi == "mpich"), done.stdout
    print(mpi, module, "passed", flush=True)


def main():
    root = os.path.abspath(sys.argv[1])
    if not shutil.which("gfortran"):
        debian.skip("there is no gfortran")
    try:
        for packages in PACKAGES.values():
            debian.fetch(root, packages)
    except debian.Missing as error:
        debian.skip(str(error))
    for mpi in PACKAGES:
        for module in FLAGS:
            run(root, mpi, module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
