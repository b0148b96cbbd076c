# SPDX-License-Identifier: BSD-3-Clause
# After an error of a compiled function in one process no call meets another one: each process gets right results, or errors.
# usage: after_error.py CAUSE JIT, with mpiexec and 3 processes; CAUSE: call, callback, unseen (a callback while the program does
# something else); JIT: weft, jax
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import weft_mpi.jax as weft
from weft_mpi.jax.communicator import registry

RANK, SIZE = weft.rank(), weft.size()
CAUSE = sys.argv[1]
compiled = {"weft": weft.jit, "jax": jax.jit}[sys.argv[2]]
PAIR = registry().of_ranks((1, 2)) if RANK > 0 else None  # without the process that fails
OTHER = registry().of_ranks((2, 1, 0))


def raising(x):
    raise RuntimeError("the callback fails")


@jax.jit
def slow(x):
    """The same number, after some tenths of a second: a function that takes it runs after its start has returned."""
    ones = jnp.ones((300, 300))
    return jax.lax.fori_loop(0, 300, lambda _, y: y + 0 * (ones * y @ ones)[0, 0], x)


@compiled
def failing(x):
    """Fails in process 0, which makes a part of the calls only."""
    if CAUSE != "call" and RANK == 0:
        x = jax.pure_callback(raising, x, x)
    if CAUSE == "call" and RANK < 2:  # process 1 sends a message that is too long for process 0
        operand = jnp.zeros(2 if RANK == 0 else 100)
        x = x + weft.sendrecv(operand, 1 - RANK, 1 - RANK)[0]
    return weft.allreduce(x) + weft.allreduce(x, comm=OTHER)


@compiled
def numbered(x):
    return weft.allreduce(x), weft.allreduce(-x, comm=OTHER)


def attempt(function, *arguments, **words):
    """Returns the results of a function that may still run, or its error."""
    try:
        return function(*arguments, **words)
    except RuntimeError as error:  # jax.errors.JaxRuntimeError is one
        return error


def error_of(results, wanted=None):
    """Waits for results; returns the text of their error. They may be right, but nothing else."""
    if isinstance(results, Exception):
        return str(results)
    try:
        found = [float(result) for result in jax.tree.leaves(results)]
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    assert found == wanted, f"rank {RANK}: {found}, not {wanted}: calls have met others"
    return ""


assert error_of(numbered(jnp.float32(1)), [float(SIZE), -float(SIZE)]) == ""
if CAUSE == "unseen":
    failed = attempt(failing, slow(jnp.float32(1000)))
    seen = [f"seen-{rank}" for rank in range(1, SIZE)]
    if RANK > 0:
        assert error_of(failed)
        open(seen[RANK - 1], "w").close()
    deadline = time.monotonic() + 60
    while RANK == 0 and not all(map(os.path.exists, seen)):
        assert time.monotonic() < deadline, "the other processes wait for calls that this one does not make"
        time.sleep(0.01)
else:
    failed = attempt(failing, jnp.float32(1000))
started = [attempt(numbered, jnp.float32(number)) for number in range(2, 20)]
texts = [
    error_of(failed),
    *(error_of(results, [number * SIZE, -number * SIZE]) for number, results in enumerate(started, 2)),
]
assert all(texts), f"rank {RANK}: {texts}"
texts = [error_of(attempt(numbered, jnp.float32(20)))]
texts += [error_of(attempt(weft.allreduce, 1.0, comm=comm)) for comm in (None, OTHER)]
if PAIR is not None:  # both have been told
    texts.append(error_of(attempt(weft.allreduce, 1.0, comm=PAIR)))
late = registry().of_ranks((1, 0, 2))  # collective, and of no use
texts.append(error_of(attempt(weft.allreduce, 1.0, comm=late)))
wanted = ("MPI_Sendrecv_c" if CAUSE == "call" else "the callback fails") if RANK == 0 else "revoked"
assert all(wanted in text for text in texts), f"rank {RANK}: {texts}"
