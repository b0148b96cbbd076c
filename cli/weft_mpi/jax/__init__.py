# SPDX-License-Identifier: BSD-3-Clause
# weft_mpi.jax: collectives and messages of MPI inside of functions that jax.jit compiles.
"""Collectives of MPI on JAX arrays, also inside of jax.jit, jax.grad and jax.vmap.

Every process runs the same program and has its own arrays. Calls are made in the order of the program, also in different
compiled functions; all processes make the calls of a communicator in the same order. comm: None (all processes), or an
intracommunicator of mpi4py, whose first use is collective over it. One device of JAX per process.

Derivatives are those of the sum of what all processes compute.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from weft_mpi.jax import primitives
from weft_mpi.jax.communicator import Communicator, registry, resolve
from weft_mpi.jax.compiled import jit

__all__ = [
    "Communicator",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "bcast",
    "jit",
    "rank",
    "reduce_scatter",
    "sendrecv",
    "size",
    "stream_waits",
]

MAX_TAG = 2**30 - 1  # MPI_TAG_UB of Weft

# Operations of the standard ABI, and of weft.h: of numbers, and of truth values.
NUMBERS = {
    "sum": primitives.SUM,
    "min": 34,
    "max": 35,
    "prod": 36,
    "and": 40,
    "or": 41,
    "xor": 42,
    "mean": primitives.MEAN,
}
TRUTH = {"sum": 49, "max": 49, "or": 49, "prod": 48, "min": 48, "and": 48, "xor": 50}
NOBODY = -1  # for the handlers


def _gpu() -> int:
    """Returns the number of the GPU on which arrays of this process are by default; -1: they are not on a GPU."""
    if jax.default_backend() != "gpu":
        return -1
    device = jax.config.jax_default_device
    device = device if isinstance(device, jax.Device) else jax.local_devices()[0]
    return device.local_hardware_id if device.platform == "gpu" else -1


def _caller(comm) -> Communicator:
    """Returns the communicator of a call. The first one on it is collective."""
    found = resolve(comm)
    if found.kernels is None:
        registry().open_kernels(found, _gpu())
    return found


def _operation(op: str, dtype) -> int:
    truth = jnp.issubdtype(dtype, jnp.bool_)
    found = (TRUTH if truth else NUMBERS).get(op)
    whole = truth or jnp.issubdtype(dtype, jnp.integer)
    if found is None or (op in ("and", "or", "xor") and not whole):
        raise ValueError(f"weft_mpi.jax: op = {op!r} is not defined for {dtype}: use one of {', '.join(NUMBERS)}")
    if op in ("min", "max") and jnp.issubdtype(dtype, jnp.complexfloating):
        raise ValueError(f"weft_mpi.jax: op = {op!r} is not defined for complex numbers")
    return found


def _process(number, name: str, comm: Communicator, none_allowed: bool = False) -> int:
    if number is None and none_allowed:
        return NOBODY
    if not isinstance(number, int) or not 0 <= number < comm.size:
        raise ValueError(f"weft_mpi.jax: {name} = {number!r} is no rank: use a number from 0 to {comm.size - 1}")
    return number


def rank(comm=None) -> int:
    """Returns the rank of this process."""
    return resolve(comm).rank


def size(comm=None) -> int:
    """Returns the number of processes."""
    return resolve(comm).size


def allreduce(x, op: str = "sum", comm=None):
    """Returns the elements of all processes, combined; same shape as x. op: sum, mean, prod, min, max; on integers and bool
    and, or, xor. Differentiable for sum and mean."""
    x = jnp.asarray(x)
    return primitives.allreduce_p.bind(x, comm=_caller(comm), op=_operation(op, x.dtype))


def allgather(x, comm=None):
    """Returns the arrays of all processes: shape (number of processes, *shape of x). Differentiable."""
    return primitives.allgather_p.bind(jnp.asarray(x), comm=_caller(comm))


def alltoall(x, comm=None):
    """Sends x[i] to process i; element j of the result is from process j. The first dimension of x is the number of
    processes. Differentiable."""
    return primitives.alltoall_p.bind(jnp.asarray(x), comm=_caller(comm))


def reduce_scatter(x, op: str = "sum", comm=None):
    """Returns x[rank] of all processes, combined as by allreduce: shape x.shape[1:]. The first dimension of x is the number
    of processes. Differentiable for sum and mean."""
    x = jnp.asarray(x)
    return primitives.reduce_scatter_p.bind(x, comm=_caller(comm), op=_operation(op, x.dtype))


def bcast(x, root: int = 0, comm=None):
    """Returns x of process `root`. x has the same shape and type in all processes. Differentiable."""
    comm = _caller(comm)
    return primitives.bcast_p.bind(jnp.asarray(x), comm=comm, root=_process(root, "root", comm))


def sendrecv(x, source: int | None, dest: int | None, sendtag: int = 0, recvtag: int = 0, comm=None):
    """Sends x to process `dest`, and returns an array of the same shape and type from process `source`. dest None: sends
    nothing; source None: returns zeros. Differentiable."""
    comm = _caller(comm)
    for tag in (sendtag, recvtag):
        if not isinstance(tag, int) or not 0 <= tag <= MAX_TAG:
            raise ValueError(f"weft_mpi.jax: the tag {tag!r} is no number from 0 to {MAX_TAG}")
    return primitives.sendrecv_p.bind(
        jnp.asarray(x),
        comm=comm,
        source=_process(source, "source", comm, True),
        dest=_process(dest, "dest", comm, True),
        sendtag=sendtag,
        recvtag=recvtag,
    )


def barrier(comm=None) -> None:
    """Waits, in the order of the calls, until all processes have made this call."""
    primitives.barrier_p.bind(comm=_caller(comm))


def stream_waits() -> int:
    """Returns how many calls of this process have waited on the host for the stream of a GPU: a slow path."""
    return registry().module.weft_jax_stream_waits()
