#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The datatypes of weft.h by their numbers, as docs/python.md says: the same in mpi4py built with Weft's mpicc and in its
# binary packages for MPICH and Open MPI. usage: extension_types.py BUILT WHEEL. Status 77 if neither is there.
import os
import subprocess
import sys

SKIPPED = 77
PROGRAM = """
from mpi4py import MPI
import struct
world = MPI.COMM_WORLD
for number, ones, name in ((0x24b, 0x3f80, "MPIX_BFLOAT16"), (0x24a, 0x3c00, "MPIX_C_FLOAT16")):
    datatype = MPI.Datatype.fromhandle(number)
    values, sums = bytearray(struct.pack("2H", ones, 0)), bytearray(4)
    world.Allreduce([values, 2, datatype], [sums, 2, datatype])
    twos = {0x3f80: 0x4000, 0x3c00: 0x4000}[ones]
    assert struct.unpack("2H", sums) == (twos, 0), sums
    assert (datatype.Get_size(), datatype.Get_extent(), datatype.is_predefined) == (2, (0, 2), True)
    assert datatype.Get_name() == name, datatype.Get_name()
    pair = datatype.Create_contiguous(2)
    (part,) = pair.Get_contents()[-1]
    assert part.Get_name() == name, part.Get_name()
    pair.Free()
try:
    MPI.Datatype.fromhandle(0x3).Get_size()
except (MPI.Exception, ValueError) as error:
    print(MPI.Get_library_version().rpartition("(")[2])
"""


def main():
    built, wheel = sys.argv[1:]
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    variants = [(built, {}, "MPI 5.0 standard ABI)"), (wheel, {"MPI4PY_MPIABI": "mpich"}, "binary interface of MPICH)"),
                (wheel, {"MPI4PY_MPIABI": "openmpi"}, "binary interface of Open MPI)")]  # fmt: skip
    variants = [variant for variant in variants if os.path.isdir(os.path.join(variant[0], "mpi4py"))]
    for folder, variables, interface in variants:
        environment = {**os.environ, "PYTHONPATH": folder, **variables}
        done = subprocess.run([mpiexec, "-n", "2", sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.stdout.splitlines() == 2 * [interface], (interface, done)
    if not variants:
        print("skipped: there is no mpi4py")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
