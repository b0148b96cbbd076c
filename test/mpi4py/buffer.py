#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft_mpi.buffer with mpi4py: arrays of NumPy, objects with the interfaces of CuPy and DLPack, PyTorch and JAX where this Python
# has them. usage: buffer.py BUILT NUMPY; status 77 without mpi4py.
import gc
import importlib.util
import os
import sys

SKIPPED = 77
BUILT, NUMPY = sys.argv[1:3]
PREFIX = os.environ["MPI_PREFIX"]
if not os.path.isdir(os.path.join(BUILT, "mpi4py")):
    print("skipped: mpi4py is not built")
    sys.exit(SKIPPED)
sys.path[:0] = [BUILT, os.path.join(PREFIX, "share", "weft", "python")]
if importlib.util.find_spec("numpy") is None:
    sys.path.append(NUMPY)

import numpy as np
from mpi4py import MPI
from weft_mpi import arrays, buffer

COMM = MPI.COMM_WORLD


class Gpu:
    """An array like one of a GPU library, in memory of an array of NumPy."""

    def __init__(self, array, **changes):
        self.array, self.changes, self.asked = array, changes, 0

    @property
    def __cuda_array_interface__(self):
        self.asked += 1
        found = dict(self.array.__array_interface__, version=3)
        return {**found, **self.changes}


class Packed:
    """An array that only DLPack describes."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def refused(x, text):
    try:
        buffer(x)
    except TypeError as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no error: {text}")


def check_types():
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "f2", "?"):
        for make in (lambda array: array, Gpu, Packed):
            mine, total = np.ones((3, 2), dtype), np.zeros((3, 2), dtype)
            op = MPI.LOR if dtype == "?" else MPI.SUM
            for _ in range(2):
                COMM.Allreduce(buffer(make(mine)), buffer(make(total)), op)
                assert (total == np.full((3, 2), True if dtype == "?" else COMM.size)).all(), (dtype, make, total)


def check_changes():
    """A changed address, a changed size, a new object with the identity of an old one."""
    first, second = np.arange(4.0), np.arange(6.0) + 10
    x, out = Gpu(first), np.zeros(6)
    for _ in range(3):
        COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=out[:4], source=COMM.rank)
        assert (out[:4] == first).all()
    x.array = second
    COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=out, source=COMM.rank)
    assert (out == second).all(), out
    x.array = second[:2]  # the same address
    status = MPI.Status()
    COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=out, source=COMM.rank, status=status)
    assert status.Get_count(MPI.DOUBLE) == 2
    for i in range(1000):
        array = Gpu(np.full(1 + i % 6, float(i)))
        COMM.Sendrecv(buffer(array), COMM.rank, recvbuf=out, source=COMM.rank, status=status)
        assert status.Get_count(MPI.DOUBLE) == 1 + i % 6 and out[0] == i
        del array
    del x
    gc.collect()
    assert not arrays._known, arrays._known


def check_lifetime():
    """A buffer keeps its array until the operation ends."""
    out = np.zeros(1000)
    request = COMM.Isend(buffer(Gpu(np.full(1000, 5.0))), COMM.rank)
    other = [np.full(1000, 7.0) for _ in range(10)]
    COMM.Recv(buffer(out), COMM.rank)
    request.Wait()
    assert (out == 5).all() and len(other) == 10


def check_refusals():
    refused(Gpu(np.ones((4, 4)).T[1:]), "contiguous")
    refused(Packed(np.ones((4, 4))[:, :2]), "contiguous")
    refused(Gpu(np.ones(4), mask=True), "mask")
    refused(Gpu(np.ones(4), typestr=">f8"), ">f8")
    refused(Gpu(np.array(["2026"], "M8[Y]")), "M8")
    refused(3.0, "float is no array")
    readonly = Gpu(np.ones(4))
    readonly.changes = {"data": (readonly.array.ctypes.data, True)}
    COMM.Sendrecv(buffer(readonly), COMM.rank, recvbuf=np.zeros(4), source=COMM.rank)
    try:
        COMM.Irecv(buffer(readonly), COMM.rank)
    except (BufferError, ValueError):
        pass
    else:
        raise AssertionError("received into memory that is read only")
    # One row, or no element, is contiguous whatever its strides are.
    COMM.Allreduce(buffer(Gpu(np.ones((1, 4))[:, ::1])), buffer(Gpu(np.zeros((1, 4)))))
    COMM.Allreduce(buffer(Gpu(np.ones(0))), buffer(Gpu(np.ones(0))))


def check_torch():
    import torch

    for dtype in (
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.complex64,
        torch.int64,
        torch.bool,
        torch.float64,
    ):
        x, out = torch.ones(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
        COMM.Allreduce(buffer(x), buffer(out), MPI.LOR if dtype == torch.bool else MPI.SUM)
        assert (out == torch.full((2, 3), True if dtype == torch.bool else COMM.size, dtype=dtype)).all(), dtype
    x = torch.arange(6.0).reshape(2, 3)
    buffer(x)
    x.t_()  # the same address and size in another order
    refused(x, "contiguous")
    parameter = torch.nn.Parameter(torch.ones(4))
    COMM.Allreduce(MPI.IN_PLACE, buffer(parameter))
    assert parameter[0] == COMM.size


def check_jax():
    import jax.numpy as jnp

    for dtype in ("float32", "bfloat16", "int32", "complex64"):
        x, out = jnp.ones(5, dtype), np.zeros(5, "f4" if dtype == "bfloat16" else dtype)
        if dtype == "bfloat16":
            assert buffer(x)[1].Get_size() == 2
            continue
        COMM.Allreduce(buffer(x.block_until_ready()), buffer(out))
        assert (out == COMM.size).all()


check_types()
check_changes()
check_lifetime()
check_refusals()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for library in ("torch", "jax"):
    if importlib.util.find_spec(library) is not None:
        globals()[f"check_{library}"]()
