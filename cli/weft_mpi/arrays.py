# SPDX-License-Identifier: BSD-3-Clause
# Arrays: buffers for mpi4py of arrays that it examines slowly (PyTorch), not at all (bfloat16), or wrongly. An array is
# examined once; later calls with the same object compare its address and size. Imports no library of arrays.
from __future__ import annotations

import ctypes
import weakref
from collections import namedtuple

_Memory = namedtuple("_Memory", "address count kind readonly owner")

# Element types: type of ctypes, or None; name in mpi4py, or handle of the standard ABI and of weft.h; size in bytes.
_ELEMENTS = {
    "int8": (ctypes.c_int8, "INT8_T", 1),
    "int16": (ctypes.c_int16, "INT16_T", 2),
    "int32": (ctypes.c_int32, "INT32_T", 4),
    "int64": (ctypes.c_int64, "INT64_T", 8),
    "uint8": (ctypes.c_uint8, "UINT8_T", 1),
    "uint16": (ctypes.c_uint16, "UINT16_T", 2),
    "uint32": (ctypes.c_uint32, "UINT32_T", 4),
    "uint64": (ctypes.c_uint64, "UINT64_T", 8),
    "float32": (ctypes.c_float, "FLOAT", 4),
    "float64": (ctypes.c_double, "DOUBLE", 8),
    "bool": (ctypes.c_bool, "C_BOOL", 1),
    "complex64": (None, "C_FLOAT_COMPLEX", 8),
    "complex128": (None, "C_DOUBLE_COMPLEX", 16),
    "float16": (None, 0x24A, 2),
    "bfloat16": (None, 0x24B, 2),
    "float8_e4m3fn": (None, 0x242, 1),
    "float8_e5m2": (None, 0x246, 1),
}
_BY_CODE = {"i": "int", "u": "uint", "f": "float", "c": "complex"}  # of typestr in array interfaces
_BY_NUMBER = ["int", "uint", "float", None, "bfloat", "complex", "bool"]  # DLDataTypeCode


class _Tensor(ctypes.Structure):
    """DLManagedTensor of DLPack, whose first member is a DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


def _refuse(x, reason: str) -> TypeError:
    return TypeError(f"weft_mpi.buffer: {type(x).__module__}.{type(x).__name__} {reason}")


def _check_contiguous(x, shape, strides, unit: int) -> int:
    """Returns the number of elements; strides in units of `unit` per element, None: contiguous."""
    count = 1
    for length, stride in zip(reversed(shape), reversed(strides or [None] * len(shape))):
        if stride is not None and length != 1 and stride != count * unit:
            raise _refuse(x, "is not contiguous: copy it, or describe its layout by a datatype of MPI")
        count *= length
    return count


def _interface(x) -> dict:
    return getattr(x, "__cuda_array_interface__", None) or x.__array_interface__


def _of_interface(x) -> _Memory:
    """The memory that an array interface describes, of GPU or of host memory."""
    found = _interface(x)
    if found.get("mask") is not None:
        raise _refuse(x, "has a mask")
    order, kind, digits = found["typestr"][0], found["typestr"][1], found["typestr"][2:]
    size = int(digits) if digits.isdigit() else 0
    name = "bool" if kind == "b" else f"{_BY_CODE.get(kind, kind)}{8 * size}"
    if name not in _ELEMENTS or (order == ">" and size > 1):
        raise _refuse(x, f"has elements of type {found['typestr']}, for which MPI has no datatype")
    count = _check_contiguous(x, found["shape"], found.get("strides"), size)
    address, readonly = found["data"]
    return _Memory(address, count, name, readonly, x)


def _of_dlpack(x) -> _Memory:
    capsule = x.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    base = _BY_NUMBER[tensor.code] if tensor.code < len(_BY_NUMBER) else None
    name = "bool" if base == "bool" else f"{base}{tensor.bits}"
    if name not in _ELEMENTS or tensor.lanes != 1:
        raise _refuse(x, f"has elements of DLPack type {tensor.code} with {tensor.bits} bits")
    shape = tensor.shape[: tensor.dimensions]
    strides = tensor.strides[: tensor.dimensions] if tensor.strides else None
    count = _check_contiguous(x, shape, strides, 1)
    return _Memory((tensor.data or 0) + tensor.offset, count, name, False, (x, capsule))


def _of_torch(x) -> _Memory:
    if not x.is_contiguous() or x.is_conj() or x.is_neg():
        raise _refuse(x, "is not contiguous: use tensor.contiguous()")
    name = str(x.dtype).partition(".")[2]
    if name not in _ELEMENTS:
        raise _refuse(x, f"has elements of type {x.dtype}, for which MPI has no datatype")
    return _Memory(x.data_ptr(), x.numel(), name, False, x)


def _of_jax(x) -> _Memory:
    name = str(x.dtype)
    if name not in _ELEMENTS:
        raise _refuse(x, f"has elements of type {name}, for which MPI has no datatype")
    return _Memory(x.unsafe_buffer_pointer(), x.size, name, True, x)


# For each library: how an array is examined, and what is compared in later calls.
_TORCH = (_of_torch, lambda x: (x.data_ptr(), x.numel(), x.is_contiguous()))
_CUPY = (_of_interface, lambda x: (x.data.ptr, x.size, x.strides))
_JAX = (_of_jax, lambda x: x.is_deleted())
_INTERFACE = (_of_interface, lambda x: [_interface(x).get(key) for key in ("data", "shape", "strides")])
_DLPACK = (_of_dlpack, None)


def _library_of(kind: type):
    """Returns the entry for arrays of a type; None: mpi4py takes them as they are, by Python's buffer protocol."""
    names = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "torch" in names and hasattr(kind, "data_ptr"):
        return _TORCH
    if "cupy" in names:
        return _CUPY
    if hasattr(kind, "unsafe_buffer_pointer"):
        return _JAX
    if "numpy" in names or kind in (bytes, bytearray, memoryview):
        return None
    if hasattr(kind, "__cuda_array_interface__") or hasattr(kind, "__array_interface__"):
        return _INTERFACE
    if hasattr(kind, "__dlpack__"):
        return _DLPACK
    raise TypeError(f"weft_mpi.buffer: {kind.__module__}.{kind.__name__} is no array")


_libraries: dict = {}
_known: dict = {}  # by id(): entries of _examine()


def _class_of(memory: _Memory) -> type:
    element, _, size = _ELEMENTS[memory.kind]
    array = element * memory.count if element else ctypes.c_ubyte * (memory.count * size)
    return type("View", (array,), {"__slots__": ("owner",)})


def _datatype_of(memory: _Memory):
    element, datatype, _ = _ELEMENTS[memory.kind]
    if element is not None:
        return None
    from mpi4py import MPI

    return getattr(MPI, datatype) if isinstance(datatype, str) else MPI.Datatype.fromhandle(datatype)


def _examine(x, library):
    """Examines an array; returns (weak reference, how it is compared, what is compared, how views are made, address,
    whether views are complete buffers, datatype or None, readonly) and its owner. Keeps the entry for as long as the array
    lives."""
    examine, compared = library
    memory = examine(x)
    try:
        number = id(x)
        reference = weakref.ref(x, lambda _: _known.pop(number, None)) if compared is not None else None
    except TypeError:
        reference = None
    key = compared(x) if compared is not None else None
    datatype, make = _datatype_of(memory), _class_of(memory).from_address
    complete = datatype is None and not memory.readonly
    entry = (reference, compared, key, make, memory.address, complete, datatype, memory.readonly)
    if reference is not None:
        _known[number] = entry
    return entry, memory.owner


def buffer(x):
    """Returns a buffer of an array for mpi4py: comm.Allreduce(buffer(x), buffer(y)). PyTorch, CuPy, JAX (to send), and objects
    with __cuda_array_interface__ or DLPack, which must be contiguous; arrays of NumPy are returned as they are. The first
    call with an array examines it, later ones compare its address and size only. The buffer keeps the array alive.

    Work of a GPU on the array must be complete, as for every buffer of mpi4py. Raises TypeError."""
    entry = _known.get(id(x))
    if entry is not None:
        _, compared, key, make, address, complete, _, _ = entry
        if complete and compared(x) == key:  # the entry of another object with this identity has gone with that object
            view = make(address)
            view.owner = x
            return view
    return _any_buffer(x, entry)


def _any_buffer(x, entry):
    """Returns the buffer of an array that is new, has changed, or is no buffer by itself."""
    kind = type(x)
    if kind not in _libraries:
        _libraries[kind] = _library_of(kind)
    library, owner = _libraries[kind], x
    if library is None:
        return x
    if entry is None or entry[1](x) != entry[2]:
        entry, owner = _examine(x, library)
    view = entry[3](entry[4])
    view.owner = owner
    if entry[7]:
        view = memoryview(view).toreadonly()
    return view if entry[6] is None else [view, entry[6]]
