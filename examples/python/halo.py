#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Halo exchange of a 3-D field whose faces are subarrays: NumPy on cores, or CuPy or PyTorch on GPUs, where the MPI calls
# wait in the stream of the kernels, without a synchronisation: a kernel executes them. mpiexec -n 4 python3 halo.py
# --library cupy
import argparse
import sys

from mpi4py import MPI


class Halo:
    """The exchange of a field of n^3 cells of doubles with one halo cell on each side, on a periodic grid of ranks."""

    def __init__(self, comm, n):
        self.n = n
        self.grid = comm.Create_cart(MPI.Compute_dims(comm.size, 3), periods=[True] * 3)
        self.faces = []  # (destination, its type, source, its type)
        for axis in range(3):
            below, above = self.grid.Shift(axis, 1)
            self.faces.append((below, self.plane(axis, 1), above, self.plane(axis, n + 1)))
            self.faces.append((above, self.plane(axis, n), below, self.plane(axis, 0)))

    def plane(self, axis, index):
        """The type of a plane of inner cells."""
        parts, starts = [self.n] * 3, [1] * 3
        parts[axis], starts[axis] = 1, index
        return MPI.DOUBLE.Create_subarray([self.n + 2] * 3, parts, starts).Commit()

    def use(self, stream):
        """Puts the calls of exchange() into `stream`. All ranks promise GPU memory, and no ANY_SOURCE."""
        import weft_mpi

        grid, self.grid = self.grid, weft_mpi.stream_comm(self.grid, stream)
        grid.Free()

    def exchange(self, field):
        """Fills the halo of `field`, an array with (n + 2)^3 cells."""
        requests = [
            self.grid.Irecv([field, 1, received], source, tag)
            for tag, (_, _, source, received) in enumerate(self.faces)
        ]
        requests += [
            self.grid.Isend([field, 1, sent], destination, tag)
            for tag, (destination, sent, _, _) in enumerate(self.faces)
        ]
        MPI.Request.Waitall(requests)

    def free(self):
        for _, sent, _, received in self.faces:
            sent.Free()
            received.Free()
        self.grid.Free()


def choose(library, local_rank):
    """Returns the array module, its current stream (None: host memory), and a function that waits for it."""
    if library == "numpy":
        import numpy

        return numpy, None, lambda: None
    if library == "cupy":
        import cupy

        cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.use()
        return cupy, stream, stream.synchronize
    import torch

    torch.cuda.set_device(local_rank % torch.cuda.device_count())
    torch.set_default_device("cuda")
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    return torch, stream, stream.synchronize


def main():
    parser = argparse.ArgumentParser(description="Exchanges the halo of a 3-D field, and checks it.")
    parser.add_argument("--library", choices=("numpy", "cupy", "torch"), default="numpy")
    parser.add_argument("--cells", type=int, default=32, help="of a rank along each axis")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    comm = MPI.COMM_WORLD
    local_rank = comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank()
    xp, stream, wait = choose(arguments.library, local_rank)
    halo = Halo(comm, arguments.cells)
    field = xp.full((arguments.cells + 2,) * 3, -1.0, dtype=xp.float64)
    if stream is not None:
        halo.use(stream)
    for step in range(arguments.steps):
        field[1:-1, 1:-1, 1:-1] = comm.rank + step  # a kernel
        halo.exchange(field)  # after it in the stream; the host does not wait
        field *= 1.0  # another, after the exchange
    wait()
    last = arguments.steps - 1
    inner = slice(1, -1)
    good = True
    for axis in range(3):
        below, above = halo.grid.Shift(axis, 1)
        for source, index in ((below, 0), (above, -1)):
            face = [inner] * 3
            face[axis] = index
            good = good and bool((field[tuple(face)] == source + last).all())
    good = comm.allreduce(good, MPI.LAND)
    if comm.rank == 0:
        print("%d ranks, %s: %s" % (comm.size, arguments.library, "all as expected" if good else "WRONG"))
    halo.free()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
