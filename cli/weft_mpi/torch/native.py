# SPDX-License-Identifier: BSD-3-Clause
# Native: the module libweft_torch.so, which issues operations in streams (src/torch). Python loads it by its stable interface,
# and passes it the addresses of all functions that it calls.
from __future__ import annotations

import ctypes
import functools
import os

import torch
import torch._C._distributed_c10d as c10d

from weft_mpi import mpi, prefix
from weft_mpi.torch.work import NO_TIME

MODULE = "libweft_torch.so"
FUNCTIONS = {name: number for number, name in enumerate(mpi.ENQUEUED)}  # Call::Function of src/torch/queue.hpp
# Methods of a process group: the function of MPI, the type of their options, the operation for errors.
METHODS = {
    "allreduce": ("Allreduce_c", c10d.AllreduceOptions, "all_reduce"),
    "broadcast": ("Bcast_c", c10d.BroadcastOptions, "broadcast"),
    **dict.fromkeys(
        ("all_gather_single", "_allgather_base"), ("Allgather_c", c10d.AllgatherOptions, "all_gather_into_tensor")
    ),
    **dict.fromkeys(
        ("reduce_scatter_single", "_reduce_scatter_base"),
        ("Reduce_scatter_block_c", c10d.ReduceScatterOptions, "reduce_scatter_tensor"),
    ),
    **dict.fromkeys(("all_to_all_single", "alltoall_base"), ("Alltoall_c", c10d.AllToAllOptions, "all_to_all_single")),
}
# DLPack's functions in C (torch 2.10), and the types that they describe. Other subclasses of tensors may have no memory of their
# own, and are read by their methods.
EXCHANGE = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
DESCRIBED = (torch.Tensor, torch.nn.Parameter)
FUNCTION_OF = {operation: function for function, _, operation in METHODS.values()}


@functools.cache
def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def module() -> ctypes.PyDLL:
    loaded = ctypes.PyDLL(os.path.join(prefix.find(), "lib", MODULE))
    loaded.weft_torch_types.restype = loaded.weft_torch_functions.restype = ctypes.py_object
    loaded.weft_torch_watch.argtypes, loaded.weft_torch_watch.restype = [ctypes.py_object, *[ctypes.c_double] * 2], None
    return loaded


@functools.cache
def types() -> tuple[type, type]:
    """Returns the types Queue and Issue of the module."""
    return module().weft_torch_types()


def queue(library, comm: ctypes.c_void_p, own: int):
    """Returns the queue of a communicator whose operations go into the stream `own`. Its GPU is current."""
    functions = [
        getattr(library, name.removeprefix("MPIX_")) if name.startswith("MPIX_") else getattr(driver(), name)
        for name in module().weft_torch_functions().split()
    ]
    addresses = tuple(ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    return types()[0](addresses, comm.value, own)


def install(kernels, work: type, raw_stream) -> None:
    """Lets a process group issue its operations on tensors of the GPU by the module. Its methods in Python take all calls that
    the module leaves to them."""
    group, issue = kernels.group, types()[1]
    for method, (function, options, operation) in METHODS.items():
        general = getattr(group, method)
        made = issue(
            FUNCTIONS[function],
            kernels.index,
            group.processes,
            general,
            kernels,
            group,
            kernels.queue,
            options,
            work,
            kernels.done,
            raw_stream,
            operation,
            NO_TIME,
            EXCHANGE,
            DESCRIBED,
        )
        setattr(group, method, made)


def uninstall(group) -> None:
    for method in METHODS:
        group.__dict__.pop(method, None)
