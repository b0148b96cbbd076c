#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Time of an all-reduce of 8 bytes: in C, and by mpi4py with arrays of NumPy, and of PyTorch with and without weft_mpi.buffer, all
# by turns. Host memory: time of the processor, of one process. GPU memory: of all processes, each with the GPU of its local rank.
# In GPU memory, also C with pauses before the calls of all ranks, and of one rank by turns: an all-reduce that takes longer then
# is no cost of Python, which makes both kinds of pauses.
# No test; usage: mpiexec -n 1 python buffer_speed.py [ROUNDS] [cuda], with torch, mpi4py and a C compiler. Rank 0 prints medians
# in microseconds, without the pauses, and medians of the differences to C in the same round.
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

CUDA = sys.argv[2:] == ["cuda"]
COMM, CALLS = (MPI.COMM_WORLD, 500) if CUDA else (MPI.COMM_SELF, 1000)
CLOCK = time.perf_counter if CUDA else time.thread_time
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
LOOP = """
#include <mpi.h>
#include <time.h>
static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}
void loop(int calls, int world, int pause_ns, int by_turns, const void* send, void* recv) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < calls; ++i) {
    if (pause_ns > 0 && (!by_turns || i % size == rank))
      for (long long end = now() + pause_ns; now() < end;);
    MPI_Allreduce(send ? send : MPI_IN_PLACE, recv, 2, MPI_FLOAT, MPI_SUM, world ? MPI_COMM_WORLD : MPI_COMM_SELF);
  }
}
"""


def compiled():
    """Returns a function that makes a loop in C on memory at these addresses; no `send`: in place."""
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
        loop = ctypes.CDLL(library).loop

    def make(send, recv, pause_us=0, by_turns=False):
        addresses = ctypes.c_void_p(send), ctypes.c_void_p(recv)
        return lambda calls: loop(calls, int(CUDA), pause_us * 1000, int(by_turns), *addresses)

    return make


def repeated(call):
    def run(calls):
        for _ in range(calls):
            call()

    return run


def microseconds(name, run):
    """Returns the mean time of a call, without its pause."""
    COMM.Barrier()
    begin = CLOCK()
    run(CALLS)
    return (CLOCK() - begin) / CALLS * 1e6 - PAUSES.get(name, (0,))[0]


if CUDA:
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", COMM.rank)) % torch.cuda.device_count())
array = [numpy.ones(2, "f4") for _ in range(2)]
tensor = [torch.ones(2, device="cuda" if CUDA else "cpu") for _ in range(2)]
once = [[MPI.memory.fromaddress(x.data_ptr(), 8), MPI.FLOAT] for x in tensor]
counted = [[memory, 2, datatype] for memory, datatype in once]
if CUDA:
    torch.cuda.synchronize()
in_c, addresses = compiled(), [x.data_ptr() for x in tensor]
PAUSES = {f"C, {pause} us after the call before": (pause, False) for pause in (1, 2, 4, 8, 12)} if CUDA else {}
PAUSES |= {f"C, one rank {pause} us late": (pause, True) for pause in (1, 2, 4)} if CUDA else {}
RUNS = {
    "C": in_c(*addresses),
    "C, in place": in_c(None, addresses[1]),
    **{name: in_c(*addresses, *pause) for name, pause in PAUSES.items()},
    "MPI.memory made once": repeated(lambda: COMM.Allreduce(once[0], once[1])),
    "MPI.memory made once, with count": repeated(lambda: COMM.Allreduce(counted[0], counted[1])),
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
        found[name].append(microseconds(name, run))
for name, times in found.items() if COMM.rank == 0 else ():
    above = statistics.median(mine - c for mine, c in zip(times, found["C"]))
    print(f"{name}: {statistics.median(times):.2f} us, {above:.2f} us above C")
