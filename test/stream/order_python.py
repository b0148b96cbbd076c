#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# One rank of a test of weft_mpi.stream and stream_comm on the emulated driver: exchanges in the order of two streams,
# nested, and of objects like those of CuPy, PyTorch and Numba, and the halo of examples/python/halo.py.
# usage: mpiexec -n 2 order_python.py EXAMPLES
import array
import contextlib
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
    """An array in GPU memory; `code`: its type, as in the module array."""

    def __init__(self, count=N, code="i"):
        self.code, self.count, self.size = code, count, array.array(code).itemsize
        self.bytes = ctypes.c_size_t(count * self.size)
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), self.bytes)
        self.address = address.value

    def set(self, values):
        host = array.array(self.code, values)
        pointer = ctypes.c_void_p(host.buffer_info()[0])
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), pointer, self.bytes)
        call("cuStreamSynchronize", None)  # the copy from pageable memory may end after its call

    def write(self, value):
        self.set([value] * self.count)

    def get(self):
        values = array.array(self.code, [0]) * self.count
        pointer = ctypes.c_void_p(values.buffer_info()[0])
        call("cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(self.address), self.bytes)
        return values

    def read(self):
        return set(self.get())

    @property
    def __cuda_array_interface__(self):
        kind = "f" if self.code in "fd" else "i"
        place = {"data": (self.address, False), "shape": (self.count,), "strides": None}
        return {"version": 3, "typestr": f"<{kind}{self.size}", **place}


def stream():
    made = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(made), 1)
    return made.value


def halo(comm, gpu_stream, kernels, steps=3, n=6):
    """Copies in the stream before and after each exchange stand for kernels; the host waits once. `kernels`: they
    execute the calls."""
    sys.path.insert(0, sys.argv[1])
    from halo import Halo

    one = Halo(comm, n)
    cells = (n + 2) ** 3
    initial, field = Memory(cells, "d"), Memory(cells, "d")
    results = [Memory(cells, "d") for _ in range(steps)]

    def copy(to, source):
        words = ctypes.c_uint64(to.address), ctypes.c_uint64(source.address), field.bytes
        call("cuMemcpyDtoDAsync_v2", *words, ctypes.c_void_p(gpu_stream))

    inner = range(1, n + 1)
    own = [100.0 * comm.rank + x if x in inner and y in inner and z in inner else -1.0
           for x in range(n + 2) for y in range(n + 2) for z in range(n + 2)]  # fmt: skip
    initial.set(own)
    if kernels:
        one.use(gpu_stream)
        assert type(one.grid) is MPI.Cartcomm
    with contextlib.nullcontext() if kernels else weft_mpi.stream(one.grid, gpu_stream):
        for result in results:
            copy(field, initial)
            one.exchange(field)
            copy(result, field)
    call("cuStreamSynchronize", ctypes.c_void_p(gpu_stream))
    for result in results:
        values = result.get()
        for axis in range(3):
            below, above = one.grid.Shift(axis, 1)
            for source, plane, origin in ((below, 0, n), (above, n + 1, 1)):
                place = [3, 4, 5]
                place[axis] = plane
                layer = origin if axis == 0 else place[0]
                assert values[(place[0] * (n + 2) + place[1]) * (n + 2) + place[2]] == 100 * source + layer
        assert values[0] == -1  # a corner
    one.free()


def main():
    comm = MPI.COMM_WORLD.Dup()
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), comm.rank)
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
    for kernels in (False, True):
        halo(comm, first, kernels)
    only = weft_mpi.stream_comm(comm, first, kernels="true")
    only.Allreduce(incoming, total)
    only.Barrier()
    call("cuStreamSynchronize", ctypes.c_void_p(first))
    assert total.read() == {81}
    only.Free()
    comm.Free()


if __name__ == "__main__":
    main()
    sys.stdout.write("good\n")
