# SPDX-License-Identifier: BSD-3-Clause
# MPI calls of mpi4py in the order of a GPU stream (docs/streams.md).
from __future__ import annotations

import contextlib
import ctypes

from weft_mpi import library

COMM_WORLD = 0x101  # MPI_COMM_WORLD of the standard ABI

_streams: dict[tuple[int, bool, str], ctypes.c_void_p] = {}  # MPIX_Stream by address and hints


def address(stream: object) -> int:
    """Returns the cudaStream_t of a stream of CuPy, PyTorch, Numba or cuda.core, or of an object with
    __cuda_stream__(); an int is returned as it is."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1] if callable(protocol) else protocol[1])
    for name in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        if (value := getattr(stream, name, None)) is not None:
            return int(value)
    if (handle := getattr(stream, "handle", None)) is not None:  # Numba
        return int(getattr(handle, "value", handle) or 0)
    raise TypeError(f"{type(stream).__name__} is not a CUDA stream: pass one of CuPy, PyTorch or Numba, or its address")


def _handle(comm: object) -> ctypes.c_void_p:
    """The MPI_Comm of a communicator of mpi4py. Raises RuntimeError if mpi4py runs by the interface of another MPI."""
    from mpi4py import MPI

    world = MPI._addressof(MPI.COMM_WORLD)
    if MPI._sizeof(MPI.Comm) != 8 or ctypes.c_void_p.from_address(world).value != COMM_WORLD:
        raise RuntimeError(
            "this mpi4py uses the binary interface of another MPI, whose handles have no stream: "
            "build it with Weft's mpicc (pip install --no-binary mpi4py mpi4py)"
        )
    return ctypes.c_void_p.from_address(MPI._addressof(comm))


def _check(functions: ctypes.CDLL, code: int) -> None:
    if code == 0:
        return
    text = ctypes.create_string_buffer(4096)
    functions.MPIX_Last_error_message(text, len(text), None)
    raise RuntimeError(text.value.decode(errors="replace"))


def stream_of(functions: ctypes.CDLL, value: int, pinned: bool = False, kernels: str = "false") -> ctypes.c_void_p:
    """The MPIX_Stream of a CUDA stream, created at the first use."""
    if (value, pinned, kernels) in _streams:
        return _streams[value, pinned, kernels]
    info, made = ctypes.c_void_p(), ctypes.c_void_p()
    _check(functions, functions.MPI_Info_create(ctypes.byref(info)))
    hints = {"type": "cudaStream_t", "weft_stream_order": "true", "weft_stream_order_pinned": str(pinned).lower()}
    hints["weft_stream_kernels"] = kernels
    for key, text in hints.items():
        _check(functions, functions.MPI_Info_set(info, key.encode(), text.encode()))
    bytes_of = ctypes.c_void_p(value)
    functions.MPIX_Info_set_hex(info, b"value", ctypes.byref(bytes_of), ctypes.c_int(ctypes.sizeof(bytes_of)))
    code = functions.MPIX_Stream_create(info, ctypes.byref(made))
    functions.MPI_Info_free(ctypes.byref(info))
    _check(functions, code)
    _streams[value, pinned, kernels] = made
    return made


@contextlib.contextmanager
def stream(comm, stream, pinned: bool = False):
    """MPI calls on `comm` (mpi4py) inside of the with statement are enqueued in `stream`, and return at once if their
    buffers are GPU memory. `pinned`: buffers in pinned host memory are used in stream order, too. Local: other ranks
    may call without a stream. The stream of before applies afterwards. Yields comm. Raises RuntimeError with Weft's
    message, TypeError for other objects."""
    functions = library.load()
    handle, before = _handle(comm), ctypes.c_void_p()
    _check(functions, functions.MPIX_Comm_get_stream(handle, 0, ctypes.byref(before)))
    _check(functions, functions.MPIX_Comm_set_stream(handle, stream_of(functions, address(stream), pinned)))
    try:
        yield comm
    finally:
        _check(functions, functions.MPIX_Comm_set_stream(handle, before))


def stream_comm(comm, stream, kernels: str = "prefer", pinned: bool = False):
    """Collective: returns a duplicate of `comm` (mpi4py), of the same class, whose MPI calls are enqueued in `stream`, a
    stream that the program has created. All ranks promise that its buffers are GPU memory, and that no receive has
    ANY_SOURCE, so that kernels execute the calls where they can. `kernels` = "true": raises RuntimeError if they cannot;
    "false": no promise. `pinned`: as in stream(). Free the duplicate like other communicators."""
    from mpi4py import MPI

    functions = library.load()
    handle, made = _handle(comm), type(comm)()
    to = stream_of(functions, address(stream), pinned, kernels)
    _check(functions, functions.MPIX_Stream_comm_create(handle, to, ctypes.c_void_p(MPI._addressof(made))))
    return made
