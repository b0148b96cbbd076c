#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# One-sided communication: each rank puts its block into the window of the next rank and adds to a counter of rank 0.
# The window is NumPy memory, or GPU memory as a CuPy array, which MPI_Win_allocate allocates.
# mpiexec -n 2 python3 window.py --library cupy
import argparse
import sys

from mpi4py import MPI

COUNT = 100_000


def numpy_window(comm):
    """Returns (window, array of its memory, module, function that waits for kernels)."""
    import numpy

    win = MPI.Win.Allocate(COUNT * 8, 8, comm=comm)
    return win, numpy.frombuffer(win.tomemory(), dtype="float64"), numpy, lambda: None


def cupy_window(comm):
    """The same in GPU memory. MPI_Win_allocate allocates on the current GPU, in a context that exists already."""
    import cupy

    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    cupy.cuda.Device(local.rank % cupy.cuda.runtime.getDeviceCount()).use()
    local.Free()
    cupy.zeros(1)  # creates the context
    info = MPI.Info.Create()
    info.Set("mpi_memory_alloc_kinds", "cuda:device")
    win = MPI.Win.Allocate(COUNT * 8, 8, info, comm)
    info.Free()
    memory = cupy.cuda.UnownedMemory(win.Get_attr(MPI.WIN_BASE), COUNT * 8, win)
    array = cupy.ndarray(COUNT, dtype="float64", memptr=cupy.cuda.MemoryPointer(memory, 0))
    return win, array, cupy, cupy.cuda.get_current_stream().synchronize


def main():
    parser = argparse.ArgumentParser(description="One-sided communication with NumPy or CuPy.")
    parser.add_argument("--library", choices=("numpy", "cupy"), default="numpy")
    comm = MPI.COMM_WORLD
    create = cupy_window if parser.parse_args().library == "cupy" else numpy_window
    win, array, module, synchronise = create(comm)
    array[:] = -1
    block = module.full(COUNT - 1, float(comm.rank))
    one = module.ones(1)
    if comm.rank == 0:
        array[COUNT - 1] = 0
    synchronise()  # kernels and copies of the library are not ordered with MPI calls
    win.Fence()
    win.Put(block, (comm.rank + 1) % comm.size)
    win.Accumulate(one, 0, target=COUNT - 1, op=MPI.SUM)
    win.Fence()
    good = bool((array[: COUNT - 1] == (comm.rank - 1) % comm.size).all())
    counter = float(array[COUNT - 1])
    good = good and counter == (comm.size if comm.rank == 0 else -1)
    synchronise()
    del array
    win.Free()
    print("rank %d: %s" % (comm.rank, "as expected" if good else "WRONG"), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
