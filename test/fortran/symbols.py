# SPDX-License-Identifier: BSD-3-Clause
# The library defines the MPI_ and PMPI_ symbols of all routines that the modules declare, and needs no runtime of a compiler.
import os
import re
import subprocess
import sys

C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def main():
    folder, library = sys.argv[1:]
    module = ""
    for name in ("mpi.F90", "mpi_f08.F90"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            module += file.read()
    module = re.sub(r"^abstract interface\n.*?^end interface\n", "", module, flags=re.M | re.S)  # callbacks of programs
    with open(folder + "/mpif.h", encoding="utf-8") as file:
        header = file.read()
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    defined = {line.split()[-1] for line in listed.splitlines()}
    wanted = {
        name.lower() + "_" for name in re.findall(r"^  (?:subroutine|(?:elemental )?function) (\w+)", module, re.M)
    }
    wanted |= {name.lower() + "_" for name in re.findall(r"^ *(?:EXTERNAL|COMMON) /?(\w+)", header, re.M)}
    wanted |= {name.lower() + "_" for name in re.findall(r"^external (\w+)", module, re.M)}
    assert len(wanted) > 2000, len(wanted)
    missing = sorted(wanted - defined)
    assert not missing, missing
    strange = sorted(name for name in defined if not re.fullmatch(r"p?mpi_\w+_", name))
    assert not strange, strange
    dynamic = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert "libmpi_abi.so.1" in needed and needed <= C_LIBRARY | {"libmpi_abi.so.1"}, needed
    print(len(wanted), "symbols")


if __name__ == "__main__":
    main()
