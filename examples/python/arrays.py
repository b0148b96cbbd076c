#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Arrays of NumPy, CuPy, PyTorch or JAX passed directly to MPI calls: a ring, a sum and a gather, each checked.
# mpiexec -n 2 python3 arrays.py --library cupy
import argparse
import sys

from mpi4py import MPI

COUNT = 100_000


class Numpy:
    """Host memory: needs no synchronisation."""

    def __init__(self, local_rank):
        import numpy

        self.module, self.device = numpy, "host"

    def full(self, count, value):
        return self.module.full(count, value, dtype="float32")

    def target(self, count):
        """Returns a receive buffer."""
        return self.full(count, -1)

    def as_array(self, array):
        """Returns a received buffer as an array of the library."""
        return array

    def as_buffer(self, array):
        """Returns an array as a send buffer for mpi4py."""
        return array

    def ready(self):
        """Returns when the arrays may be passed to MPI."""

    def all_equal(self, array, value):
        return bool((array == value).all())


class Cupy(Numpy):
    """GPU memory. Kernels run asynchronously, so ready() waits for the stream that fills the arrays."""

    def __init__(self, local_rank):
        import cupy

        self.module = cupy
        number = local_rank % cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(number).use()
        self.device = "GPU %d" % number

    def ready(self):
        self.module.cuda.get_current_stream().synchronize()


class Torch(Numpy):
    """GPU memory if there is a GPU, else host memory."""

    def __init__(self, local_rank):
        import torch

        self.module, self.device = torch, "cpu"
        if torch.cuda.is_available():
            number = local_rank % torch.cuda.device_count()
            torch.cuda.set_device(number)
            self.device = "cuda:%d" % number

    def full(self, count, value):
        return self.module.full((count,), float(value), dtype=self.module.float32, device=self.device)

    def ready(self):
        if self.device != "cpu":
            self.module.cuda.current_stream().synchronize()


class Jax(Numpy):
    """JAX arrays are immutable: receives use arrays of CuPy (on a CPU: NumPy), which are converted without a copy."""

    def __init__(self, local_rank):
        import jax

        self.jax = jax
        gpus = [device for device in jax.local_devices() if device.platform == "gpu"]
        self.receiver = Cupy(local_rank) if gpus else Numpy(local_rank)
        self.place = gpus[local_rank % len(gpus)] if gpus else jax.local_devices()[0]
        self.device = f"{self.place.platform}, {self.receiver.device}"

    def full(self, count, value):
        array = self.jax.numpy.full(count, value, dtype="float32", device=self.place)
        return array.block_until_ready()

    def target(self, count):
        return self.receiver.full(count, -1)

    def as_array(self, array):
        return self.jax.dlpack.from_dlpack(array)

    def as_buffer(self, array):
        # mpi4py does not recognise the float format of JAX's host buffers, and requests GPU arrays with a stream
        # number that JAX does not accept; CuPy provides a view of the same memory.
        return [array, MPI.FLOAT] if self.place.platform == "cpu" else self.receiver.module.from_dlpack(array)

    def ready(self):
        self.receiver.ready()


LIBRARIES = {"numpy": Numpy, "cupy": Cupy, "torch": Torch, "jax": Jax}


def ring(comm, arrays):
    """Sends the array of every rank to its right neighbour."""
    rank, size = comm.Get_rank(), comm.Get_size()
    mine, theirs = arrays.full(COUNT, rank), arrays.target(COUNT)
    arrays.ready()
    comm.Sendrecv(arrays.as_buffer(mine), dest=(rank + 1) % size, recvbuf=theirs, source=(rank - 1) % size)
    return arrays.all_equal(arrays.as_array(theirs), (rank - 1) % size)


def total(comm, arrays):
    """Sums over the ranks into another array, and sums these sums in place."""
    rank, size = comm.Get_rank(), comm.Get_size()
    mine, result, twice = arrays.full(COUNT, rank), arrays.target(COUNT), arrays.target(COUNT)
    arrays.ready()
    comm.Allreduce(arrays.as_buffer(mine), result, op=MPI.SUM)
    comm.Allreduce(arrays.as_buffer(mine), twice, op=MPI.SUM)
    comm.Allreduce(MPI.IN_PLACE, twice, op=MPI.SUM)
    expected = size * (size - 1) // 2
    result, twice = arrays.as_array(result), arrays.as_array(twice)
    return arrays.all_equal(result, expected) and arrays.all_equal(twice, size * expected)


def gather(comm, arrays):
    """Gathers the blocks of all ranks on every rank."""
    rank, size = comm.Get_rank(), comm.Get_size()
    mine, target = arrays.full(COUNT, rank), arrays.target(COUNT * size)
    arrays.ready()
    comm.Allgather(arrays.as_buffer(mine), target)
    gathered = arrays.as_array(target)
    blocks = [gathered[r * COUNT : (r + 1) * COUNT] for r in range(size)]
    return all(arrays.all_equal(block, r) for r, block in enumerate(blocks))


def main():
    parser = argparse.ArgumentParser(description="Sends arrays of a library by MPI and checks the received data.")
    parser.add_argument("--library", choices=LIBRARIES, default="numpy")
    comm = MPI.COMM_WORLD
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        arrays = LIBRARIES[parser.parse_args().library](host.Get_rank())
    except ImportError as error:
        sys.exit(f"arrays.py: {error}")
    wrong = [check.__name__ for check in (ring, total, gather) if not check(comm, arrays)]
    places = comm.gather((arrays.device, wrong), root=0)
    if comm.Get_rank() == 0:
        print(MPI.Get_library_version().splitlines()[0])
        for rank, (device, failed) in enumerate(places):
            print("rank %d, %s: %s" % (rank, device, "wrong: " + ", ".join(failed) if failed else "all as expected"))
    sys.exit(1 if comm.allreduce(len(wrong)) else 0)


if __name__ == "__main__":
    main()
