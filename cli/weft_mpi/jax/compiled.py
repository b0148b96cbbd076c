# SPDX-License-Identifier: BSD-3-Clause
# Compiled: jit(), whose functions have no effect that JAX knows of, and so take its fast path. Their calls are in order by XLA's
# tokens inside of a function, and by an array between functions, which each takes from the function before.
from __future__ import annotations

import functools
import inspect
import re
import threading
import time

import jax
import jax.numpy as jnp
from jax._src import core, effects
from jax.extend.core import Primitive
from jax.interpreters import mlir

from weft_mpi.jax import communicator
from weft_mpi.jax.primitives import EFFECT

WATCH_INTERVAL = 0.01  # seconds between two looks at functions that still run

_orders: dict[int, jax.Array] = {}  # by the thread: of its latest call
_started = threading.Event()  # functions run that the watch has not seen yet
_watch: threading.Thread | None = None


def lower_sequence(ctx, order, *operands, jaxpr):
    """Returns `order` and the results of a jaxpr whose calls of MPI are in order among themselves. operands: of its constants,
    then its arguments."""
    constants = len(jaxpr.constvars)

    def evaluate(*arrays):
        return core.eval_jaxpr(jaxpr, arrays[:constants], *arrays[constants:])

    tokens = mlir.TokenSet.create([EFFECT])
    inside = ctx.replace(avals_in=ctx.avals_in[1:], avals_out=ctx.avals_out[1:], tokens_in=tokens, tokens_out=None)
    return [order, *mlir.lower_fun(evaluate)(inside, *operands)]


sequence_p = Primitive("weft_sequence")
sequence_p.multiple_results = True
sequence_p.def_abstract_eval(lambda order, *_, jaxpr: [order, *(variable.aval for variable in jaxpr.outvars)])
for platform in ("cpu", "cuda"):
    mlir.register_lowering(sequence_p, lower_sequence, platform=platform)


def with_parameter(signature: inspect.Signature) -> inspect.Signature:
    """Returns the signature with a first parameter before all others, whose name none of them has."""
    name = "weft_order"
    while name in signature.parameters:
        name += "_"
    first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=[first, *signature.parameters.values()])


def check_effects(jaxpr) -> None:
    """Raises ValueError for a function with ordered effects that are not calls of this module: no array orders those."""
    others = [effect for effect in effects.ordered_effects.filter_in(jaxpr.effects) if effect != EFFECT]
    if others:
        raise ValueError(
            f"weft_mpi.jax: jit() has no order for other effects, such as {others[0]}: use jax.jit for this function"
        )


def has_failed(order) -> bool:
    """Waits for the end of a function. Whether that is an error, which its results have, too: then this process makes no calls
    any more, as XLA may have left out some of its calls, and functions that were started behind it."""
    try:
        order.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        communicator.end_calls(str(error))
        return True
    return False


def watch() -> None:
    """Ends the calls of this process when a function has failed, also if the program awaits no result and starts no other
    function: processes that wait for its calls would wait for ever. The latest function of a thread has failed if an earlier
    one has. Runs in a thread of its own, which ends with the first error."""
    ended: dict[int, jax.Array] = {}
    while True:
        _started.wait()
        _started.clear()
        while running := {thread: order for thread, order in list(_orders.items()) if ended.get(thread) is not order}:
            for thread, order in running.items():
                if order.is_ready():
                    if has_failed(order):
                        return
                    ended[thread] = order
            time.sleep(WATCH_INTERVAL)


def start_watch() -> None:
    """Lets the watch see the function that this thread has started."""
    global _watch
    if _watch is None:
        _watch = threading.Thread(target=watch, name="weft-jax-watch", daemon=True)
        _watch.start()
    if not _started.is_set():
        _started.set()


def is_of_xla(error: Exception) -> bool:
    """Whether the function has failed, and not the program that JAX has traced. JAX's fast path, which has no function of Python,
    raises ValueError with the code of XLA's status."""
    in_python = error.__traceback__ is not None and error.__traceback__.tb_next is not None
    fast = not in_python and re.match(r"[A-Z]+(_[A-Z]+)*: ", str(error)) is not None
    return fast or isinstance(error, jax.errors.JaxRuntimeError)


def settle() -> None:
    """Waits for the functions that still run."""
    for order in list(_orders.values()):
        has_failed(order)
    _orders.clear()


communicator.at_close.append(settle)


def options_with_order(options) -> dict:
    """Returns the options of jit() for a function that takes the order before its arguments."""
    changed = {**options, "keep_unused": True}
    for refused in ("in_shardings", "out_shardings"):
        if refused in options:
            raise ValueError(f"weft_mpi.jax: jit() has no {refused}: a process uses one device")
    for name in ("static_argnums", "donate_argnums"):
        numbers = options.get(name)
        if numbers is not None:
            numbers = (numbers,) if isinstance(numbers, int) else numbers
            changed[name] = tuple(number + 1 if number >= 0 else number for number in numbers)
    return changed


def jit(function=None, **options):
    """Returns the function compiled as by jax.jit, with the same options, for functions that contain calls of this module: they
    start faster, since JAX does not know of their effects. All calls of such functions in a thread are in the order of the
    program, but not in order with those of other functions. Options with shardings are refused, and functions with other
    ordered effects, e.g. of jax.debug.print(ordered=True). In a function that is traced, e.g. for its derivatives, it is
    jax.jit."""
    if function is None:
        return functools.partial(jit, **options)
    with_order = options_with_order(options)
    traced = jax.jit(function, **options)

    def ordered(order, /, *arguments, **words):
        leaves, tree = jax.tree.flatten((arguments, words))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]

        def inside(*arrays):
            filled = list(leaves)
            for place, array in zip(places, arrays):
                filled[place] = array
            arguments, words = jax.tree.unflatten(tree, filled)
            return function(*arguments, **words)

        jaxpr, shapes = jax.make_jaxpr(inside, return_shape=True)(*(leaves[place] for place in places))
        check_effects(jaxpr)
        operands = (*jaxpr.consts, *(leaves[place] for place in places))
        order, *results = sequence_p.bind(order, *operands, jaxpr=jaxpr.jaxpr)
        return order + 1, jax.tree.unflatten(jax.tree.structure(shapes), results)

    ordered.__name__ = getattr(function, "__name__", "function")
    ordered.__signature__ = with_parameter(inspect.signature(function))  # JAX finds static and donated arguments by it
    ordered = jax.jit(ordered, **with_order)

    @functools.wraps(function)
    def call(*arguments, **words):
        if not core.trace_state_clean() or jax.config.jax_disable_jit:
            return traced(*arguments, **words)
        thread = threading.get_ident()
        order = _orders.get(thread)
        if order is None or (order.is_ready() and has_failed(order)):
            order = jnp.zeros((), jnp.uint32)
        try:
            _orders[thread], results = ordered(order, *arguments, **words)
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            if not is_of_xla(error):
                raise
            communicator.end_calls(str(error))
            raise jax.errors.JaxRuntimeError(str(error)) from error
        start_watch()
        return results

    return call
