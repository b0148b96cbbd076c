#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs with the modules of Debian's Open MPI, linked with its libraries, on Weft: modules.py FOLDER
import os
import shutil
import subprocess
import sys

import debian

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = {"mpi": [], "mpi_f08": ["-DF08"]}
NAMES = ["usempif08", "usempi_ignore_tkr", "mpifh"]  # in the order of Open MPI's mpifort


def module_folder(root):
    """The folder of modules that this gfortran reads, whose version of modules is in its name."""
    parent = f"{root}/{debian.LIBRARIES}/fortran"
    known = sorted(name for name in os.listdir(parent) if name.startswith("gfortran-mod-"))
    return f"{parent}/{known[-1]}/openmpi"


def main():
    root = os.path.abspath(sys.argv[1])
    prefix = os.environ["MPI_PREFIX"]
    if not shutil.which("gfortran"):
        debian.skip("there is no gfortran")
    try:
        debian.fetch(root, ["libopenmpi3", "libopenmpi-dev"])
    except debian.Missing as error:
        debian.skip(str(error))
    libraries = f"{root}/{debian.LIBRARIES}"
    for module, options in FLAGS.items():
        program = f"{root}/with_{module}"
        command = [
            "gfortran",
            "-g",
            "-fbacktrace",
            "-DMODULE=" + module,
            *options,
            "-J",
            root,
            "-I",
            module_folder(root),
        ]
        command += [HERE + "/modules.F90", "-o", program, "-Wl,--no-as-needed,--allow-shlib-undefined"]
        command += [f"{libraries}/libmpi_{name}.so.40" for name in NAMES] + [libraries + "/libmpi.so.40"]
        subprocess.run(command, check=True)
        for ranks in ("1", "4"):
            subprocess.run([prefix + "/bin/mpiexec", "-n", ranks, program], check=True, timeout=100)
        text = subprocess.run(
            [prefix + "/bin/mpiexec", "--run-info", program], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        assert text.count("missing: none") == 4, text
        print(module, "passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
