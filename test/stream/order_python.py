#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# One rank of a test of weft_mpi.stream on the emulated driver: exchanges in the order of two streams, nested, and
# of objects like those of CuPy, PyTorch and Numba. usage: mpiexec -n 2 order_python.py
import array
import ctypes
import os
import sys
import types

import weft_mpi
from mpi4py import MPI

N = 10_000
driver = ctypes.CDLL(os.environ["WEFT_CUDA_DRIVER"])


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, f"{name}: error {status}"


class Memory:
    """N ints in GPU memory."""

    def __init__(self):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * N))
        self.address = address.value

    def write(self, value):
        values = array.array("i", [value]) * N
        call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(self.address),
            ctypes.c_void_p(values.buffer_info()[0]),
            ctypes.c_size_t(4 * N),
        )

    def read(self):
        values = array.array("i", [0]) * N
        call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(values.buffer_info()[0]),
            ctypes.c_uint64(self.address),
            ctypes.c_size_t(4 * N),
        )
        return set(values)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": (N,), "typestr": "<i4", "data": (self.address, False), "strides": None}


def stream():
    made = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(made), 1)
    return made.value


def main():
    comm = MPI.COMM_WORLD.Dup()
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    first, second = stream(), stream()
    kinds = [first, types.SimpleNamespace(ptr=first), types.SimpleNamespace(cuda_stream=first),
             types.SimpleNamespace(handle=ctypes.c_void_p(first)),
             types.SimpleNamespace(__cuda_stream__=lambda: (0, first))]  # fmt: skip
    out, incoming, total = Memory(), Memory(), Memory()
    other = 1 - comm.rank
    for turn, kind in enumerate(kinds):
        out.write(10 * turn + comm.rank)
        with weft_mpi.stream(comm, kind) as same:
            assert same is comm
            comm.Sendrecv(out, other, 1, incoming, other, 1)
            with weft_mpi.stream(comm, second):
                comm.Allreduce(incoming, total)
            assert comm.allreduce(turn) == 2 * turn  # pickled: on the host
            comm.Barrier()
        call("cuStreamSynchronize", ctypes.c_void_p(first))
        call("cuStreamSynchronize", ctypes.c_void_p(second))
        assert incoming.read() == {10 * turn + other}, incoming.read()
        assert total.read() == {20 * turn + 1}, total.read()
    comm.Sendrecv(out, other, 1, incoming, other, 1)  # without a stream: complete when it returns
    assert incoming.read() == {40 + other}
    try:
        with weft_mpi.stream(comm, "no stream"):
            pass
    except TypeError as error:
        assert "str is not a CUDA stream" in str(error)
    else:
        raise AssertionError("a string is no stream")
    comm.Free()


if __name__ == "__main__":
    main()
    sys.stdout.write("good\n")
