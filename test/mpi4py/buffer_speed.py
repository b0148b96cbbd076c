#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Time of the processor of an all-reduce of 8 bytes of one process, by mpi4py with arrays of NumPy, and of PyTorch with and
# without weft_mpi.buffer. No test; usage: mpiexec -n 1 python buffer_speed.py, with torch and mpi4py.
import time

import numpy
import torch
from mpi4py import MPI
from weft_mpi import buffer

COMM, REPEATS, CALLS = MPI.COMM_SELF, 20, 500


def microseconds(call):
    """Returns the least mean time of CALLS calls."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, time.process_time() - begin)
    return best / CALLS * 1e6


arrays = [numpy.ones(2, "f4") for _ in range(2)]
tensors = [torch.ones(2) for _ in range(2)]
for name, (send, recv), convert in (("NumPy", arrays, None), ("PyTorch", tensors, None),
                                    ("PyTorch with buffer", tensors, buffer)):  # fmt: skip
    if convert is None:
        in_place = microseconds(lambda: COMM.Allreduce(MPI.IN_PLACE, recv))  # noqa: B023
        two = microseconds(lambda: COMM.Allreduce(send, recv))  # noqa: B023
    else:
        in_place = microseconds(lambda: COMM.Allreduce(MPI.IN_PLACE, buffer(recv)))  # noqa: B023
        two = microseconds(lambda: COMM.Allreduce(buffer(send), buffer(recv)))  # noqa: B023
    print(f"{name}: {in_place:.2f} us in place, {two:.2f} us with two arrays")
tensor = tensors[0]
for name, call in (("__dlpack_device__", tensor.__dlpack_device__), ("__dlpack__", tensor.__dlpack__),
                   ("MPI.memory of a tensor", lambda: MPI.memory.frombuffer(tensor)),
                   ("MPI.memory of an array", lambda: MPI.memory.frombuffer(arrays[0])),
                   ("buffer", lambda: buffer(tensor))):  # fmt: skip
    print(f"{name}: {microseconds(call):.2f} us")
