#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Heat equation on a square plate: rows distributed over the ranks, halo rows by Sendrecv, NumPy on cores or CuPy on
# GPUs. mpiexec -n 4 python3 heat.py --size 256 --steps 200 [--cupy]; rank 0 compares with its own solution.
import argparse

from mpi4py import MPI


def choose(use_cupy, local_rank):
    """Returns the array module, and a function that waits until its arrays may be passed to MPI."""
    if not use_cupy:
        import numpy

        return numpy, lambda: None
    import cupy

    cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy, cupy.cuda.get_current_stream().synchronize


def plate(xp, size):
    """Returns the initial plate: hot at the top, cold elsewhere."""
    grid = xp.zeros((size, size))
    grid[0] = 100.0
    return grid


def step(grid):
    """Computes one explicit time step of all inner cells, in place."""
    change = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:] - 4 * grid[1:-1, 1:-1]
    grid[1:-1, 1:-1] += 0.2 * change


def solve(comm, xp, ready, size, steps):
    """Returns the rows of this rank after all steps, without halo rows."""
    rank, ranks = comm.Get_rank(), comm.Get_size()
    first, last = size * rank // ranks, size * (rank + 1) // ranks
    above = rank - 1 if rank > 0 else MPI.PROC_NULL
    below = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL
    top, bottom = int(rank > 0), int(rank < ranks - 1)  # halo rows
    grid = plate(xp, size)[first - top : last + bottom].copy()
    for _ in range(steps):
        ready()
        comm.Sendrecv(grid[top], dest=above, recvbuf=grid[-1], source=below)
        comm.Sendrecv(grid[-1 - bottom], dest=below, recvbuf=grid[0], source=above)
        step(grid)
    return grid[top : len(grid) - bottom].copy()


def main():
    parser = argparse.ArgumentParser(description="Solves the heat equation on all ranks.")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--cupy", action="store_true", help="use GPUs")
    arguments = parser.parse_args()
    comm = MPI.COMM_WORLD
    local_rank = comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank()
    xp, ready = choose(arguments.cupy, local_rank)

    mine = solve(comm, xp, ready, arguments.size, arguments.steps)
    counts = comm.gather(mine.size, root=0)
    whole = xp.empty((arguments.size, arguments.size)) if comm.Get_rank() == 0 else None
    ready()
    comm.Gatherv(mine, [whole, counts] if whole is not None else None, root=0)
    if comm.Get_rank() == 0:
        alone = plate(xp, arguments.size)
        for _ in range(arguments.steps):
            step(alone)
        difference = float(abs(whole - alone).max())
        print("%d ranks, mean %.6f, largest difference %g" % (comm.Get_size(), float(whole.mean()), difference))
        assert difference == 0.0


if __name__ == "__main__":
    main()
