#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Time of the processor of an all-reduce of 8 bytes of one process: in C, and by mpi4py with arrays of NumPy, and of PyTorch with
# and without weft_mpi.buffer, all by turns. No test; usage: mpiexec -n 1 python buffer_speed.py [ROUNDS], with torch, mpi4py and
# a C compiler. Prints medians in microseconds, and medians of the differences to C in the same round.
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from mpi4py import MPI
from weft_mpi import buffer, prefix

COMM, CALLS = MPI.COMM_SELF, 1000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
LOOP = """
#include <mpi.h>
void loop(int calls) {
  float send[2] = {1, 1}, recv[2];
  for (int i = 0; i < calls; ++i) MPI_Allreduce(send, recv, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
}
"""


def compiled():
    """Returns the loop in C."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "loop.so")
        command = [
            os.path.join(prefix.find(), "bin", "mpicc"),
            "-O2",
            "-shared",
            "-fPIC",
            "-x",
            "c",
            "-",
            "-o",
            library,
        ]
        subprocess.run(command, input=LOOP, text=True, check=True)
        return ctypes.CDLL(library).loop


def repeated(call):
    def run(calls):
        for _ in range(calls):
            call()

    return run


def microseconds(run):
    """Returns the mean time of a call."""
    begin = time.thread_time()
    run(CALLS)
    return (time.thread_time() - begin) / CALLS * 1e6


array, tensor = [numpy.ones(2, "f4") for _ in range(2)], [torch.ones(2) for _ in range(2)]
once = [[MPI.memory.frombuffer(x), MPI.FLOAT] for x in array]
RUNS = {
    "C": compiled(),
    "MPI.memory made once": repeated(lambda: COMM.Allreduce(once[0], once[1])),
    "NumPy": repeated(lambda: COMM.Allreduce(array[0], array[1])),
    "NumPy, in place": repeated(lambda: COMM.Allreduce(MPI.IN_PLACE, array[1])),
    "PyTorch": repeated(lambda: COMM.Allreduce(tensor[0], tensor[1])),
    "PyTorch with buffer": repeated(lambda: COMM.Allreduce(buffer(tensor[0]), buffer(tensor[1]))),
    "PyTorch with buffer, in place": repeated(lambda: COMM.Allreduce(MPI.IN_PLACE, buffer(tensor[1]))),
    "buffer of a tensor": repeated(lambda: buffer(tensor[0])),
    "is_neg of a tensor": repeated(tensor[0].is_neg),
    "__dlpack__": repeated(tensor[0].__dlpack__),
    "__dlpack_device__": repeated(tensor[0].__dlpack_device__),
    "a call of Python": repeated(lambda: None),
}
found = {name: [] for name in RUNS}
for _ in range(ROUNDS):
    for name, run in RUNS.items():
        found[name].append(microseconds(run))
for name, times in found.items():
    above = statistics.median(mine - c for mine, c in zip(times, found["C"]))
    print(f"{name}: {statistics.median(times):.2f} us, {above:.2f} us above C")
