# SPDX-License-Identifier: BSD-3-Clause
# The primitives of JAX: shapes, order, derivatives, batches, and their calls of the handlers in libweft_jax.so. Each takes and
# returns the token of one ordered effect, so that they run in the order of the program, also in several compiled functions.
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy
from jax._src import core, effects  # no public module has ordered effects
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from weft_mpi.jax.communicator import registry

SUM, MEAN = 33, 62  # MPI_SUM of the standard ABI, MPIX_AVG of weft.h


class CommunicationEffect(effects.Effect):
    """Order among the calls of this module."""

    def __hash__(self) -> int:
        return 0x57454654  # the same in all processes: compiled functions may be cached

    def __eq__(self, other) -> bool:
        return isinstance(other, CommunicationEffect)

    def __repr__(self) -> str:
        return "calls of MPI"


EFFECT = CommunicationEffect()
for allowed in ("lowerable_effects", "ordered_effects", "control_flow_allowed_effects",
                "custom_derivatives_allowed_effects", "remat_allowed_effects"):  # fmt: skip
    getattr(effects, allowed).add_type(CommunicationEffect)


@functools.cache
def register_handlers() -> None:
    """Tells XLA the addresses of the handlers, for CPUs and for GPUs."""
    module = registry().module
    for name in PRIMITIVES:
        jax.ffi.register_ffi_target(f"weft_{name}", jax.ffi.pycapsule(getattr(module, f"weft_jax_{name}")), "cpu")
        gpu = getattr(module, f"weft_jax_{name}_gpu")
        jax.ffi.register_ffi_target(f"weft_{name}", jax.ffi.pycapsule(gpu), "CUDA")


def lower(name: str, aliases: dict[int, int], ctx, *operands, comm, **attributes):
    """Returns the results of the call of a handler, which takes and returns the token as its last array."""
    register_handlers()
    token = ctx.tokens_in.get(EFFECT)
    with_token = ctx.replace(
        avals_in=(*ctx.avals_in, core.abstract_token), avals_out=(*ctx.avals_out, core.abstract_token)
    )
    call = jax.ffi.ffi_lowering(f"weft_{name}", has_side_effect=True, operand_output_aliases=aliases or None)
    numbers = {key: numpy.int64(value) for key, value in attributes.items()}
    *results, token = call(with_token, *operands, token, comm=numpy.int64(comm.index), **numbers)
    ctx.set_tokens_out(mlir.TokenSet({EFFECT: token}))
    return results


PRIMITIVES: dict[str, Primitive] = {}


def define(name: str, shape, aliases: dict[int, int] | None = None) -> Primitive:
    """Defines a primitive. shape: function of (shape of the operand, **parameters) that returns that of the result; None:
    the primitive has neither."""
    primitive = PRIMITIVES[name] = Primitive(f"weft_{name}")
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    if shape is None:
        primitive.multiple_results = True
        primitive.def_effectful_abstract_eval(lambda **_: ([], {EFFECT}))
    else:
        primitive.def_effectful_abstract_eval(
            lambda x, **parameters: (core.ShapedArray(shape(x.shape, **parameters), x.dtype), {EFFECT})
        )
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(primitive, functools.partial(lower, name, aliases or {}), platform=platform)
    return primitive


def linear(primitive: Primitive, transpose) -> None:
    """Gives a primitive derivatives: it is linear, except for operations of a reduction other than sum and mean. transpose:
    function of (cotangent, **parameters)."""

    def jvp(primals, tangents, **parameters):
        if parameters.get("op", SUM) not in (SUM, MEAN):
            raise NotImplementedError(f"{primitive} is differentiable for op='sum' and op='mean' only")
        result = primitive.bind(*primals, **parameters)
        (tangent,) = tangents
        if type(tangent) is ad.Zero:
            return result, ad.Zero.from_primal_value(result)
        return result, primitive.bind(tangent, **parameters)

    def transposed(cotangent, _operand, **parameters):
        return (transpose(ad.instantiate_zeros(cotangent), **parameters),)

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transposed


def batched(primitive: Primitive, needed: int | None, moved: int) -> None:
    """Gives a primitive batches: one call for all. needed: dimension to which that of the batch is moved before the call,
    None: any; moved: how far the call moves it."""

    def rule(operands, dimensions, **parameters):
        (x,), (dimension,) = operands, dimensions
        if needed is not None:
            x, dimension = jnp.moveaxis(x, dimension, needed), needed
        return primitive.bind(x, **parameters), dimension + moved

    batching.primitive_batchers[primitive] = rule


def divided(shape, comm, **_):
    if not shape or shape[0] != comm.size:
        raise ValueError(
            f"weft_mpi.jax: the first dimension of the operand must be the number of processes, {comm.size}; its shape is "
            f"{tuple(shape)}"
        )
    return shape


allreduce_p = define("allreduce", lambda shape, **_: shape)
allgather_p = define("allgather", lambda shape, comm, **_: (comm.size, *shape))
alltoall_p = define("alltoall", divided)
reduce_scatter_p = define("reduce_scatter", lambda shape, comm, **_: divided(shape, comm)[1:])
bcast_p = define("bcast", lambda shape, **_: shape, {0: 0})
sendrecv_p = define("sendrecv", lambda shape, **_: shape)
barrier_p = define("barrier", None)


def transpose_sendrecv(cotangent, source, dest, sendtag, recvtag, **rest):
    return sendrecv_p.bind(cotangent, source=dest, dest=source, sendtag=recvtag, recvtag=sendtag, **rest)


def transpose_reduce_scatter(cotangent, comm, op):
    return allgather_p.bind(cotangent / comm.size if op == MEAN else cotangent, comm=comm)


def transpose_bcast(cotangent, comm, root):
    total = allreduce_p.bind(cotangent, comm=comm, op=SUM)
    return total if comm.rank == root else jnp.zeros_like(total)


# The transpose over all processes: the derivative of the sum of what all of them compute.
linear(allreduce_p, lambda cotangent, **parameters: allreduce_p.bind(cotangent, **parameters))
linear(allgather_p, lambda cotangent, comm: reduce_scatter_p.bind(cotangent, comm=comm, op=SUM))
linear(reduce_scatter_p, transpose_reduce_scatter)
linear(alltoall_p, lambda cotangent, comm: alltoall_p.bind(cotangent, comm=comm))
linear(bcast_p, transpose_bcast)
linear(sendrecv_p, transpose_sendrecv)
batched(allreduce_p, None, 0)
batched(allgather_p, None, 1)
batched(alltoall_p, 1, 0)
batched(reduce_scatter_p, 1, -1)
batched(bcast_p, None, 0)
batched(sendrecv_p, None, 0)
