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
KERNELS = (
    "allreduce",
    "reduce_scatter",
    "allgather",
    "alltoall",
    "bcast",
    "sendrecv",
)  # that kernels in streams execute
# xla::PrimitiveType, of types that kernels reduce.
ELEMENT_TYPES = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
                 "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16, "complex128": 18,
                 "float8_e5m2": 19, "float8_e4m3fn": 20}  # fmt: skip
DIVIDED_BY_XLA = ("float32", "float64", "complex64", "complex128")


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

    def register(target: str, function: str, platform: str) -> None:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(module, function)), platform)

    for name in PRIMITIVES:
        register(f"weft_{name}", f"weft_jax_{name}", "cpu")
        register(f"weft_{name}", f"weft_jax_{name}_gpu", "CUDA")
    for name in KERNELS:
        register(f"weft_{name}_kernel", f"weft_jax_{name}_kernel", "CUDA")


def kernel_reduces(comm, dtype, op: int) -> bool:
    """Returns whether kernels of the communicator compute the reduction: equal in all processes."""
    number = ELEMENT_TYPES.get(numpy.dtype(dtype).name)
    return number is not None and bool(registry().module.weft_jax_reduces(comm.index, number, op))


def lower_on_gpu(name: str, aliases: dict[int, int], ctx, *operands, comm, **attributes):
    """Returns the results of a call on GPU memory, which is a kernel in XLA's stream if there is one for it. A mean of types
    that no kernel divides is a sum by a kernel, which XLA divides."""
    if name not in KERNELS or not comm.kernels:
        return lower(name, aliases, ctx, *operands, comm=comm, **attributes)
    operation, dtype = attributes.get("op"), ctx.avals_in[0].dtype
    mean = operation == MEAN and numpy.dtype(dtype).name in DIVIDED_BY_XLA
    if mean:
        attributes["op"] = operation = SUM
    if operation is not None and not kernel_reduces(comm, dtype, operation):
        assert not mean, dtype  # all of these have sums
        return lower(name, aliases, ctx, *operands, comm=comm, **attributes)
    results = lower(f"{name}_kernel", aliases, ctx, *operands, comm=comm, **attributes)
    if not mean:
        return results
    divided = ctx.replace(avals_in=ctx.avals_out, tokens_in=mlir.TokenSet(), tokens_out=None)
    return mlir.lower_fun(lambda total: total / comm.size, multiple_results=False)(divided, *results)


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
    for platform, rule in (("cpu", lower), ("cuda", lower_on_gpu)):
        mlir.register_lowering(primitive, functools.partial(rule, name, aliases or {}), platform=platform)
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
