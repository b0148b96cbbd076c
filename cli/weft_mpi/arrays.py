# SPDX-License-Identifier: BSD-3-Clause
# Arrays: buffers for mpi4py of arrays that it examines slowly (PyTorch), not at all (bfloat16), or wrongly. The module
# libweft_python.so (src/python) describes arrays of PyTorch 2.10 and later in each call. Others are examined here once; later
# calls with the same object compare its address and size. Imports no library of arrays.
from __future__ import annotations

import ctypes
import os
import weakref
from collections import namedtuple

from weft_mpi import prefix

MODULE = "libweft_python.so"
_Memory = namedtuple("_Memory", "address count kind readonly owner")

# Element types: format of the module struct, or None; name in mpi4py, or handle of the standard ABI and of weft.h, which is
# passed where there is no format; size in bytes; DLDataTypeCode.
_ELEMENTS = {
    "int8": ("b", "INT8_T", 1, 0),
    "int16": ("h", "INT16_T", 2, 0),
    "int32": ("i", "INT32_T", 4, 0),
    "int64": ("l", "INT64_T", 8, 0),
    "uint8": ("B", "UINT8_T", 1, 1),
    "uint16": ("H", "UINT16_T", 2, 1),
    "uint32": ("I", "UINT32_T", 4, 1),
    "uint64": ("L", "UINT64_T", 8, 1),
    "float32": ("f", "FLOAT", 4, 2),
    "float64": ("d", "DOUBLE", 8, 2),
    "bool": ("?", "C_BOOL", 1, 6),
    "complex64": (None, "C_FLOAT_COMPLEX", 8, 5),
    "complex128": (None, "C_DOUBLE_COMPLEX", 16, 5),
    "float16": (None, 0x24A, 2, 2),
    "bfloat16": (None, 0x24B, 2, 4),
    "float8_e4m3fn": (None, 0x242, 1, 10),
    "float8_e5m2": (None, 0x246, 1, 12),
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


def _compared_interface(x):
    found = _interface(x)
    return found["data"], found["shape"], found["typestr"], found.get("strides")


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
_TORCH = (
    _of_torch,
    lambda x: (x.data_ptr(), x.numel(), x.dtype, x.is_contiguous(), x.is_conj(), x.is_neg()),
)
_CUPY = (_of_interface, lambda x: (x.data.ptr, x.size, x.strides))
_JAX = (_of_jax, lambda x: x.is_deleted())
_INTERFACE = (_of_interface, _compared_interface)
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


def _classify(kind: type):
    """Returns what the module does with arrays of a type: True: returns them as they are, False: calls _buffer_of; a tuple of
    DLPack's interface in C and of two methods: describes them. DLPack has no notion of read only, which arrays of JAX are."""
    library = _libraries[kind] = _library_of(kind)
    if library is None:
        return True
    exchange = getattr(kind, "__dlpack_c_exchange_api__", None)
    # Other subclasses of tensors may have no memory of their own.
    exact = (kind.__module__, kind.__qualname__) in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"))
    return (exchange, kind.is_neg, kind.is_conj) if exact and exchange is not None else False


_libraries: dict = {}
# By id(): how an array is compared, what is compared, a view that does not own the array, the datatype beside it or None, and a
# weak reference to the array.
_known: dict = {}
_KINDS = {name: number for number, name in enumerate(_ELEMENTS)}


def _datatype_of(number: int):
    """Returns the datatype that is passed beside the buffer of such elements."""
    from mpi4py import MPI

    _, datatype, _, _ = _ELEMENTS[list(_ELEMENTS)[number]]
    return getattr(MPI, datatype) if isinstance(datatype, str) else MPI.Datatype.fromhandle(datatype)


def _buffer_of(x):
    """Returns the buffer of an array that the module does not describe, and that is new or has changed. The module compares the
    array later, for as long as it lives."""
    kind = type(x)
    library = _libraries.get(kind) or _library_of(kind)
    if library is None:
        return x
    examine, compared = library
    memory = examine(x)
    arguments = (_KINDS[memory.kind], memory.address, memory.count, memory.readonly)
    number = id(x)
    try:
        # An entry goes with its array, so another array with this identity never finds it.
        reference = weakref.ref(x, lambda _: _known.pop(number, None)) if compared is not None else None
    except TypeError:
        reference = None
    if reference is not None:
        view = _make(*arguments, None)
        view, datatype = view if isinstance(view, list) else (view, None)
        _known[number] = (compared, compared(x), view, datatype, reference)
    return _make(*arguments, memory.owner)


def _load():
    """Returns the functions buffer and make of the module."""
    function = ctypes.PyDLL(os.path.join(prefix.find(), "lib", MODULE)).weft_python_buffer
    function.argtypes, function.restype = [ctypes.py_object] * 5, ctypes.py_object
    kinds = [(format or "", size, code) for format, _, size, code in _ELEMENTS.values()]
    return function(kinds, _known, _classify, _buffer_of, _datatype_of)


buffer, _make = _load()
