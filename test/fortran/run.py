# SPDX-License-Identifier: BSD-3-Clause
# Compiles PROGRAM.F90, with PROGRAM_tool.F90 or .c if there is one, with mpifort for one interface (mpif.h, mpi or
# mpi_f08) and runs it with 1 to 4 ranks.
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    interface, program = sys.argv[1:]
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, program)
        # mpif.h has no interfaces, so programs pass buffers of several types.
        options = (
            ["-std=legacy", "-w"]
            if interface == "mpif.h"
            else ["-O2", "-Wall", "-Wno-unused-dummy-argument", "-DMODULE=" + interface]
        )
        options += ["-DF08"] if interface == "mpi_f08" else []
        sources = [os.path.join(HERE, program + part) for part in (".F90", "_tool.F90")]
        sources = [source for source in sources if os.path.exists(source)]
        tool = os.path.join(HERE, program + "_tool.c")
        if os.path.exists(tool):
            subprocess.run(["mpicc", "-Wall", "-I" + HERE, "-c", tool], cwd=folder, check=True)
            sources.append(program + "_tool.o")
        command = ["mpifort", "-g", "-fbacktrace", *options, *sources, "-o", binary]
        subprocess.run(command, cwd=folder, check=True)
        for ranks in (1, 2, 4):
            subprocess.run(["mpiexec", "-n", str(ranks), binary], cwd=folder, check=True, timeout=50)
    return 0


if __name__ == "__main__":
    sys.exit(main())
