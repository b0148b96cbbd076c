# SPDX-License-Identifier: BSD-3-Clause
# A loop over mpi4py as programs of CuPy, PyTorch and NumPy have it: each step makes a new array, exchanges its edges
# with both neighbors, and averages a vector over the ranks. Every result is checked. Rank 0 prints JSON: microseconds
# of each step, of the slowest rank. Usage: mpiexec -n RANKS python3 array_loop.py cupy|torch|numpy [options]
import argparse
import json
import os
import sys
import time


class Numpy:
    name = "numpy"

    def __init__(self, device):
        import numpy

        self.library = numpy

    def full(self, count, value):
        return self.library.full(count, value, dtype="float32")

    def empty_like(self, array):
        return self.library.empty_like(array)

    def synchronize(self):
        """Waits for the kernels of the program, as MPI requires before it reads an array."""

    def is_filled_with(self, array, value):
        return bool((array == value).all())


class Cupy(Numpy):
    name = "cupy"

    def __init__(self, device):
        import cupy

        self.library = cupy
        cupy.cuda.Device(device % cupy.cuda.runtime.getDeviceCount()).use()

    def synchronize(self):
        self.library.cuda.get_current_stream().synchronize()


class Torch(Numpy):
    name = "torch"

    def __init__(self, device):
        import torch

        self.library = torch
        torch.cuda.set_device(device % torch.cuda.device_count())

    def full(self, count, value):
        return self.library.full((count,), float(value), device="cuda")

    def synchronize(self):
        self.library.cuda.current_stream().synchronize()


def local_rank():
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


def step(xp, world, number, options):
    """One step; returns whether all received data are right."""
    rank, ranks = world.Get_rank(), world.Get_size()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    value = number % 100 + rank
    field = xp.full(options.cells, value)
    from_left, from_right = xp.empty_like(field[: options.edge]), xp.empty_like(field[: options.edge])
    xp.synchronize()
    world.Sendrecv(field[-options.edge :], right, 0, from_left, left, 0)
    world.Sendrecv(field[: options.edge], left, 1, from_right, right, 1)
    gradient = xp.full(options.parameters, value)
    total = xp.empty_like(gradient)
    xp.synchronize()
    world.Allreduce(gradient, total)
    expected = ranks * (number % 100) + ranks * (ranks - 1) // 2
    return (
        xp.is_filled_with(from_left, number % 100 + left)
        and xp.is_filled_with(from_right, number % 100 + right)
        and xp.is_filled_with(total, expected)
    )


def main():
    parser = argparse.ArgumentParser(description="A loop over mpi4py with new arrays in each step.")
    parser.add_argument("library", choices=("cupy", "torch", "numpy"))
    parser.add_argument("--cells", type=int, default=4 << 20, help="floats of the array of a rank (4194304)")
    parser.add_argument("--edge", type=int, default=16384, help="floats sent to each neighbor (16384)")
    parser.add_argument("--parameters", type=int, default=262144, help="floats averaged over the ranks (262144)")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    xp = next(one for one in (Numpy, Cupy, Torch) if one.name == options.library)(local_rank())
    xp.is_filled_with(xp.full(1, 0), 0)  # the library's own start
    world.Barrier()
    times, right, last = [], True, time.perf_counter()
    for number in range(options.steps):
        right = step(xp, world, number, options) and right
        now = time.perf_counter()
        times.append((now - last) * 1e6)
        last = now
    slowest = [max(of_ranks) for of_ranks in zip(*world.allgather(times))]
    right = all(world.allgather(right))
    if world.Get_rank() == 0:
        print(json.dumps({"library": options.library, "valid": right, "us": slowest}))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
