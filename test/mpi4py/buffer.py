#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft_mpi.buffer with mpi4py: arrays of NumPy, objects with the interfaces of CuPy and DLPack, PyTorch and JAX where this Python
# has them. usage: buffer.py BUILT NUMPY; status 77 without mpi4py.
import contextlib
import ctypes
import gc
import importlib.util
import os
import sys
import weakref

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


class Shape(ctypes.Structure):
    """DLTensor of DLPack."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]  # fmt: skip


class Tensor:
    """An array that is described by functions in C, as those of PyTorch are, in memory of an array of NumPy."""

    CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
    __module__ = "torch"

    def __init__(self, array, code=None, negative=False, conjugate=False):
        self.array, self.negative, self.conjugate, self.asked, self.code = array, negative, conjugate, 0, code

    def is_neg(self):
        return bool(self.negative)

    def is_conj(self):
        return self.conjugate

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Shape))
    def describe(self, shape):
        try:
            found = self.array
            shape, dtype, count = shape[0], found.dtype, found.ndim
            shape.data, shape.dimensions, shape.lanes, shape.offset = found.ctypes.data - 8, count, 1, 8
            shape.code = Tensor.CODES[dtype.kind] if self.code is None else self.code
            shape.bits = 8 * dtype.itemsize
            self.kept = [(ctypes.c_int64 * count)(*found.shape),
                         (ctypes.c_int64 * count)(*(stride // dtype.itemsize for stride in found.strides))]  # fmt: skip
            shape.shape, shape.strides = self.kept
        except (AttributeError, KeyError):
            return -1
        return 0

    def data_ptr(self):
        """As for a library without such functions, with the other methods that arrays.py calls then."""
        self.asked += 1
        return self.array.ctypes.data

    dtype = property(lambda self: f"torch.{self.array.dtype}")

    def numel(self):
        return self.array.size

    def is_contiguous(self):
        return self.array.flags.c_contiguous


def exchange(major=1):
    """Returns the interface in C of the type Tensor, as a capsule."""
    table = (ctypes.c_uint64 * 7)(major, 0, 0, 0, 0, ctypes.cast(Tensor.describe, ctypes.c_void_p).value, 0)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    exchange.kept = [*getattr(exchange, "kept", []), table]  # lives as long as the process
    return new(ctypes.addressof(table), b"dlpack_exchange_api", None)


Tensor.__dlpack_c_exchange_api__ = exchange()


def refused(x, text):
    try:
        buffer(x)
    except TypeError as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no error: {text}")


def check_types():
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "f2", "?"):
        for make in (lambda array: array, Gpu, Packed, Tensor):
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
    x.changes = {"typestr": "<i8"}
    COMM.Allreduce(buffer(x), whole := np.zeros(2, "i8"))
    assert (whole == second[:2].view("i8") * COMM.size).all()
    x.changes = {}
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


def check_described():
    """An array with functions in C is described in each call, and no entry is kept."""
    x, out, status = Tensor(np.arange(6.0)), np.zeros(6), MPI.Status()
    for i in range(100):
        x.array = np.full(1 + i % 6, float(i))
        COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=out, source=COMM.rank, status=status)
        assert status.Get_count(MPI.DOUBLE) == 1 + i % 6 and out[0] == i
    for code, bits in ((4, "i2"), (10, "i1"), (12, "i1")):
        assert buffer(Tensor(np.zeros(3, bits), code))[1].Get_size() == int(bits[1])
    assert x.asked == 0 and not arrays._known, (x.asked, arrays._known)
    # Other calls are those of arrays.py, which finds the error.
    refused(Tensor(np.ones((4, 4)).T), "contiguous")
    refused(Tensor(np.ones(4), negative=True), "contiguous")
    refused(Tensor(np.ones(4, "c8"), conjugate=True), "contiguous")
    buffer(Tensor(np.ones(4), conjugate=True))  # no complex number
    refused(Tensor(np.array(["2026"], "M8[Y]")), "datetime64")


def check_classes():
    """Types without such functions, with those of another version, and more types than the module remembers."""

    class Subclass(Tensor):
        __module__ = "torch"

    class Other(Tensor):
        __module__, __qualname__, __dlpack_c_exchange_api__ = "torch", "Tensor", exchange(2)

    for kind in (Subclass, Other):
        x = kind(np.ones(4))
        COMM.Allreduce(MPI.IN_PLACE, buffer(x))
        assert x.asked > 0 and (x.array == COMM.size).all()
    for _ in range(50):
        array = type("Array", (Gpu,), {})(np.ones(4))
        COMM.Allreduce(MPI.IN_PLACE, buffer(array))
        assert (array.array == COMM.size).all()
    assert buffer(out := np.ones(1)) is out
    with contextlib.suppress(TypeError):
        buffer(object())


class Interrupted:
    """Ctrl-C while a question is answered."""

    @property
    def __array_interface__(self):
        raise KeyboardInterrupt

    def __bool__(self):
        raise KeyboardInterrupt


def check_interrupt():
    """Ctrl-C while an array is compared or described ends the program."""
    compared, described = Gpu(np.ones(4)), Tensor(np.ones(4))
    buffer(compared)
    compared.array = described.negative = Interrupted()
    for x in (compared, described):
        try:
            buffer(x)
        except KeyboardInterrupt:
            continue
        raise AssertionError(f"{type(x).__name__}: the interrupt is lost")


def check_references():
    """A buffer keeps its array, in a cycle as well, and nothing else does."""
    for make in (Gpu, Tensor):
        x = make(np.ones(4))
        before = sys.getrefcount(x)
        views = [buffer(x) for _ in range(10)]
        assert sys.getrefcount(x) == before + 10
        seen = memoryview(views[0])
        assert (seen.format, seen.shape, seen.strides, seen.readonly) == ("d", (4,), (8,), False)
        views.clear()
        assert sys.getrefcount(x) == before + 1 and seen[3] == 1
        seen.release()
        assert sys.getrefcount(x) == before
        gone = weakref.ref(x)
        x.own = buffer(x)
        del x
        gc.collect()
        assert gone() is None


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
    x = torch.ones(4, dtype=torch.complex64)
    for lazy in (x.conj(), torch._neg_view(x), torch._neg_view(torch.ones(4))):
        refused(lazy, "contiguous")
    x, out, status = torch.zeros(2), np.zeros(64), MPI.Status()
    for i in range(1, 50):  # other memory below the same object
        if i % 3:
            x.resize_(i)
        else:
            x.data = torch.zeros(i, dtype=torch.float64 if i % 2 else torch.float32)
        x.fill_(i)
        COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=[out, MPI.BYTE], source=COMM.rank, status=status)
        assert status.Get_count(MPI.BYTE) == i * x.element_size() and out.view(str(x.dtype)[6:])[i - 1] == i
    x = torch.arange(12.0)[5:9]  # a part of an array
    COMM.Sendrecv(buffer(x), COMM.rank, recvbuf=out[:2], source=COMM.rank)
    assert (out[:2].view("f4") == [5, 6, 7, 8]).all()
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
check_described()
check_classes()
check_interrupt()
check_references()
check_lifetime()
check_refusals()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for library in ("torch", "jax"):
    if importlib.util.find_spec(library) is not None:
        globals()[f"check_{library}"]()
