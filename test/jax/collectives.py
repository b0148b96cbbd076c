# SPDX-License-Identifier: BSD-3-Clause
# One process of the tests of weft_mpi.jax. usage: collectives.py CHECK; any number of processes.
import functools
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np
import weft_mpi.jax as weft

RANK, SIZE = weft.rank(), weft.size()
NEXT, PREVIOUS = (RANK + 1) % SIZE, (RANK - 1) % SIZE
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
         "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


def same(found, wanted, what=""):
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.dtype.name.startswith(("float8", "bfloat16")):
        found, wanted = found.astype("float32"), wanted.astype("float32")
    np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=f"rank {RANK}: {what}")


def mine(rank, dtype="float32", shape=(SIZE, 3)):
    """The array of a process: small integers."""
    return (np.arange(np.prod(shape)).reshape(shape) % 3 + rank % 2).astype(dtype)


def everybody(dtype="float32", shape=(SIZE, 3)):
    return [mine(rank, dtype, shape) for rank in range(SIZE)]


def raises(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def check_values():
    jax.config.update("jax_enable_x64", True)
    for dtype in TYPES:
        x, all_of = jnp.asarray(mine(RANK, dtype)), np.stack(everybody("float64"))
        total = all_of.sum(0).astype(dtype)
        for compiled in (False, True):
            run = jax.jit if compiled else (lambda function: function)
            same(run(weft.allreduce)(x), total, f"allreduce {dtype}")
            same(run(weft.reduce_scatter)(x), total[RANK], f"reduce_scatter {dtype}")
            same(run(weft.allgather)(x), all_of.astype(dtype), f"allgather {dtype}")
            same(run(weft.alltoall)(x), all_of[:, RANK].astype(dtype), f"alltoall {dtype}")
            same(run(functools.partial(weft.bcast, root=SIZE - 1))(x), mine(SIZE - 1, dtype), f"bcast {dtype}")
            shift = functools.partial(weft.sendrecv, source=PREVIOUS, dest=NEXT)
            same(run(shift)(x), mine(PREVIOUS, dtype), f"sendrecv {dtype}")
            assert run(weft.allreduce)(x).dtype == jnp.dtype(dtype)
        if dtype.startswith("float8"):
            continue  # the numbers below are no numbers of these types
        same(weft.allreduce(x, "prod"), all_of.prod(0).astype(dtype), f"prod {dtype}")
        if not dtype.startswith("complex"):
            same(weft.allreduce(x, "min"), all_of.min(0).astype(dtype))
            same(weft.allreduce(x, "max"), all_of.max(0).astype(dtype))
        scaled = jnp.asarray(mine(RANK, dtype)) * jnp.asarray(SIZE, dtype)
        same(weft.allreduce(scaled, "mean"), total, f"mean {dtype}")
        same(weft.reduce_scatter(scaled, "mean"), total[RANK], f"mean {dtype}")
    bits = jnp.asarray([RANK, 1 << RANK, 7], "int32")
    same(weft.allreduce(bits, "and"), [0 if SIZE > 1 else RANK, 0 if SIZE > 1 else 1, 7])
    same(weft.allreduce(bits, "or"), [functools.reduce(int.__or__, range(SIZE)), (1 << SIZE) - 1, 7])
    truth = jnp.asarray([RANK == 0, True, False])
    same(weft.allreduce(truth), [True, True, False])
    same(weft.allreduce(truth, "min"), [SIZE == 1, True, False])
    same(weft.allreduce(truth, "xor"), [True, SIZE % 2 == 1, False])
    for shape in ((), (0,), (SIZE, 0), (1000, 1001)):
        same(weft.allreduce(jnp.ones(shape, "float32")), np.full(shape, SIZE), f"shape {shape}")
    same(weft.sendrecv(jnp.ones(2), RANK - 1 if RANK > 0 else None, RANK + 1 if RANK + 1 < SIZE else None),
         np.full(2, 1.0 if RANK > 0 else 0.0), "an open chain")  # fmt: skip
    same(weft.allreduce(3.0), 3.0 * SIZE)
    weft.barrier()
    jax.jit(lambda: weft.barrier())()


def check_gradients():
    """The derivatives of f(all operands) = sum over all processes of what each computes, by differences."""
    jax.config.update("jax_enable_x64", True)
    weights = np.random.default_rng(3).normal(size=(SIZE, 64))

    def weighted(y):
        return (jnp.sin(y).reshape(-1) * weights[RANK, : y.size]).sum()

    functions = {
        "allreduce": lambda x: weft.allreduce(x),
        "mean": lambda x: weft.allreduce(x, "mean"),
        "allgather": weft.allgather,
        "reduce_scatter": lambda x: weft.reduce_scatter(x),
        "reduce_scatter mean": lambda x: weft.reduce_scatter(x, "mean"),
        "alltoall": weft.alltoall,
        "bcast": lambda x: weft.bcast(x, SIZE - 1),
        "sendrecv": lambda x: weft.sendrecv(x, PREVIOUS, NEXT, RANK, PREVIOUS),
        "open chain": lambda x: weft.sendrecv(x, RANK - 1 if RANK else None, NEXT if NEXT else None),
        "twice": lambda x: weft.allreduce(jnp.cos(weft.sendrecv(x, PREVIOUS, NEXT)) * x),
    }
    x = jnp.asarray(mine(RANK, "float64") * 0.3)
    for name, function in functions.items():
        value = lambda x, function=function: weighted(function(x))  # noqa: E731
        for run in (
            jax.grad(value),
            jax.jit(jax.grad(value)),
            jax.grad(jax.jit(value)),
            jax.grad(jax.checkpoint(value)),
        ):
            found = run(x)
            for of in range(SIZE):  # one element of each process
                step = np.zeros(x.shape)
                if RANK == of:
                    step[-1, 1] = 1e-5
                up, down = value(x + step), value(x - step)
                wanted = weft.allreduce((up - down) / 2e-5)
                if RANK == of:
                    np.testing.assert_allclose(found[-1, 1], wanted, rtol=1e-6, atol=1e-9, err_msg=f"{name} of {of}")
        _, tangent = jax.jvp(function, (x,), (jnp.ones_like(x),))
        if name != "twice":  # the others are linear
            same(tangent, function(jnp.ones_like(x)), f"forward, {name}")
    same(jax.grad(jax.grad(lambda x: weft.allreduce(x**3)))(2.0), 12.0 * SIZE)
    raises(NotImplementedError, "op='sum'", lambda: jax.grad(lambda x: weft.allreduce(x, "max"))(1.0))


def check_batches():
    x = jnp.asarray(mine(RANK, "float32", (SIZE, SIZE, SIZE)))
    for function in (weft.allreduce, weft.allgather, weft.alltoall, weft.reduce_scatter, weft.bcast,
                     lambda y: weft.sendrecv(y, PREVIOUS, NEXT)):  # fmt: skip
        for axis in (0, 2):
            rows = [function(row) for row in jnp.moveaxis(x, axis, 0)]
            same(jax.vmap(function, in_axes=axis)(x), jnp.stack(rows), f"axis {axis}")
            same(jax.jit(jax.vmap(function, in_axes=axis, out_axes=1))(x), jnp.stack(rows, 1))
    same(jax.vmap(jax.grad(lambda y: weft.allreduce(y).sum()))(x), np.full(x.shape, SIZE))


def check_order():
    """Calls of several compiled functions, whose results nobody needs, or whose data do not depend on each other."""

    @jax.jit
    def both(x):
        first = weft.sendrecv(x, PREVIOUS, NEXT, 1, 1)
        weft.allreduce(x)  # not used
        second = weft.sendrecv(x + 1, PREVIOUS, NEXT, 1, 1)  # the same tag
        return second, first

    @jax.jit
    def other(x):
        return weft.sendrecv(x, PREVIOUS, NEXT, 1, 1)

    large = jnp.full(200_000, float(RANK))
    for i in range(50):
        big = both(large + i)
        small = other(jnp.full(3, float(RANK - i)))
        same(small, np.full(3, PREVIOUS - i), f"small {i}")
        same(big[1][:2], np.full(2, PREVIOUS + i))
        same(big[0][-2:], np.full(2, PREVIOUS + i + 1))
        weft.barrier()

    def step(carry, x):
        carry = weft.sendrecv(carry, PREVIOUS, NEXT)
        return carry, weft.allreduce(carry * x)

    carry, sums = jax.jit(lambda c: jax.lax.scan(step, c, jnp.arange(7.0)))(jnp.full(2, float(RANK)))
    same(carry, np.full(2, (RANK - 7) % SIZE))
    same(sums[:, 0], np.arange(7.0) * sum(range(SIZE)))
    looped = jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, weft.sendrecv(c[1], PREVIOUS, NEXT)),
                                (0, jnp.full(1, float(RANK))))  # fmt: skip
    same(looped[1], np.full(1, (RANK - 5) % SIZE))
    chosen = jax.jit(lambda p, x: jax.lax.cond(p, weft.allreduce, lambda y: weft.sendrecv(y, PREVIOUS, NEXT), x))
    same(chosen(True, jnp.ones(1)), np.full(1, SIZE))
    same(chosen(False, jnp.full(1, float(RANK))), np.full(1, PREVIOUS))


def check_jit():
    """Functions of weft.jit: order inside and among them, where data do not depend on each other, and what JAX does with them."""

    @weft.jit
    def both(x):
        first = weft.sendrecv(x, PREVIOUS, NEXT, 1, 1)
        weft.allreduce(x)  # not used
        second = weft.sendrecv(x + 1, PREVIOUS, NEXT, 1, 1)  # the same tag
        return second, first

    @weft.jit
    def other(x):
        return weft.sendrecv(x, PREVIOUS, NEXT, 1, 1)

    meet = weft.jit(weft.barrier)
    large = jnp.full(200_000, float(RANK))
    for i in range(50):
        big = both(large + i)
        small = other(jnp.full(3, float(RANK - i)))
        assert meet() is None
        same(small, np.full(3, PREVIOUS - i), f"small {i}")
        same(big[1][:2], np.full(2, PREVIOUS + i))
        same(big[0][-2:], np.full(2, PREVIOUS + i + 1))

    constant = jnp.arange(3.0)

    @functools.partial(weft.jit, static_argnums=1, static_argnames="op", donate_argnums=(0,))
    def mixed(tree, times, *, factor, op="sum"):
        def step(carry, _):
            return weft.allreduce(carry, op), None

        carry, _ = jax.lax.scan(step, tree["x"] * factor + constant, None, length=times)
        return {"carry": carry, "unchanged": tree["y"], "number": 7}

    for times, op in ((1, "sum"), (2, "sum"), (2, "max"), (1, "sum")):
        found = mixed({"x": jnp.full(3, float(RANK)), "y": jnp.ones(1)}, times, factor=2.0, op=op)
        total = sum(2.0 * rank + np.arange(3.0) for rank in range(SIZE))
        wanted = total * SIZE ** (times - 1) if op == "sum" else 2.0 * (SIZE - 1) + np.arange(3.0)
        same(found["carry"], wanted)
        same((found["unchanged"], [found["number"]]), (np.ones(1), [7]))

    square = weft.jit(lambda x: weft.allreduce(x**2))
    same(jax.grad(square)(3.0), 6.0 * SIZE)
    same(jax.vmap(square)(jnp.arange(3.0)), np.arange(3.0) ** 2 * SIZE)
    same(jax.jit(lambda x: square(x) + 1)(2.0), 4.0 * SIZE + 1)
    same(weft.jit(jax.grad(square))(3.0), 6.0 * SIZE)
    raises(ValueError, "first dimension", lambda: weft.jit(weft.alltoall)(jnp.ones((SIZE + 1, 2))))
    times = lambda x, order: weft.allreduce(x) * order  # noqa: E731
    for found in (weft.jit(times)(1.0, 2.0), weft.jit(times, static_argnames="order")(1.0, order=2),
                  weft.jit(lambda x, **words: times(x, **words))(1.0, order=2.0)):  # fmt: skip
        same(found, 2.0 * SIZE, "a parameter named order")
    both = lambda x: (jax.debug.print("{}", x, ordered=True), weft.allreduce(x))[1]  # noqa: E731
    raises(ValueError, "no order for other effects", lambda: weft.jit(both)(1.0))


def lowered(function, x):
    return jax.jit(function).trace(x).lower(lowering_platforms=("cuda",)).as_text()


def check_lowering():
    """On GPUs calls are kernels in XLA's stream where there are kernels; which ones, only a GPU could tell."""
    primitives = weft.primitives
    x, comm = jnp.ones((SIZE, 3)), weft.resolve(None)
    assert "@weft_allreduce(" in lowered(lambda x: weft.allreduce(x), x)
    comm.kernels, primitives.kernel_reduces = (
        True,
        lambda _comm, dtype, op: op != primitives.MEAN and dtype != "float16",
    )
    for function in (weft.allreduce, weft.allgather, weft.alltoall, weft.reduce_scatter, weft.bcast):
        text = lowered(function, x)
        assert f"@weft_{function.__name__}_kernel(" in text and "divide" not in text, text
        assert f"@weft_{function.__name__}_kernel(" in lowered(weft.jit(function), x)
    text = lowered(lambda x: weft.allreduce(x, "mean"), x)
    assert "@weft_allreduce_kernel(" in text and "divide" in text and "op = 33" in text, text
    text = lowered(lambda x: weft.allreduce(x, "mean"), x.astype("bfloat16"))
    assert "@weft_allreduce(" in text and "divide" not in text, text
    assert "@weft_allreduce(" in lowered(weft.allreduce, x.astype("float16"))
    assert "@weft_sendrecv_kernel(" in lowered(lambda x: weft.sendrecv(x, PREVIOUS, NEXT), x)
    assert "@weft_barrier(" in jax.jit(weft.barrier).trace().lower(lowering_platforms=("cuda",)).as_text()
    comm.kernels = False


def check_errors():
    x = jnp.ones((SIZE, 2))
    raises(ValueError, "first dimension", lambda: weft.alltoall(jnp.ones((SIZE + 1, 2))))
    raises(ValueError, "first dimension", lambda: jax.jit(weft.reduce_scatter)(jnp.ones(())))
    raises(ValueError, "root = 99", lambda: weft.bcast(x, 99))
    raises(ValueError, "dest = -1", lambda: weft.sendrecv(x, PREVIOUS, -1))
    raises(ValueError, "tag", lambda: weft.sendrecv(x, PREVIOUS, NEXT, sendtag=-1))
    raises(ValueError, "'avg'", lambda: weft.allreduce(x, "avg"))
    raises(ValueError, "'xor'", lambda: weft.allreduce(x, "xor"))
    raises(ValueError, "complex", lambda: weft.allreduce(jnp.ones(2, "complex64"), "max"))


def check_communicators():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    assert (comm.Get_rank(), comm.Get_size()) == (RANK, SIZE)
    same(weft.allreduce(jnp.ones(2), comm=comm), np.full(2, SIZE))
    halves = comm.Split(RANK % 2, -RANK)
    assert (weft.rank(halves), weft.size(halves)) == (halves.Get_rank(), halves.Get_size())
    expected = halves.allreduce(RANK)

    @jax.jit
    def mixed(x):
        part = weft.allreduce(x, comm=halves)
        return part, weft.allreduce(part, "max"), weft.bcast(x, 0, halves)

    part, most, first = mixed(jnp.full(1, float(RANK)))
    same(part, [expected])
    same(most, [comm.allreduce(expected, MPI.MAX)])
    same(first, [halves.bcast(RANK, 0)])
    same(jax.grad(lambda x: weft.allreduce(x, comm=halves))(1.0), halves.Get_size())
    assert weft.size(MPI.COMM_SELF) == 1
    # mpi4py's messages do not meet those of compiled functions.
    request = comm.irecv(source=PREVIOUS)
    same(weft.sendrecv(jnp.full(1, float(RANK)), PREVIOUS, NEXT), [PREVIOUS])
    comm.send("text", NEXT)
    assert request.wait() == "text"


def check_exit():
    """The program ends while a compiled function may still run."""
    jax.jit(lambda x: weft.allreduce(weft.allreduce(x)))(jnp.ones(1_000_000))


def check_failure():
    """A process that ends with an exception ends the job."""
    weft.allreduce(1.0)
    if RANK == SIZE - 1:
        raise RuntimeError("the program fails")
    weft.allreduce(1.0).block_until_ready()
    print("not ended")


def check_speed():
    """Ten all-reduces of 8 bytes in a compiled function: time of each in microseconds, beyond a function without any."""
    import time

    def repeated(count):
        def function(x):
            for _ in range(count):
                x = weft.allreduce(x) * 0.5
            return x * 1.0

        return function

    def microseconds(function):
        x, found = jnp.ones(2), []
        for _ in range(20):
            begin = time.perf_counter()
            for _ in range(20):
                x = function(x)
            x.block_until_ready()
            found.append((time.perf_counter() - begin) / 20e-6)
        return min(found), sorted(found)[10]

    for name, jit in (("weft_mpi.jax.jit", weft.jit), ("jax.jit", jax.jit)):
        (none, usual_none), (ten, usual_ten) = (microseconds(jit(repeated(count))) for count in (0, 10))
        if RANK == 0:
            print(f"{name}, {SIZE} processes: {(ten - none) / 10:.2f} us at best, {(usual_ten - usual_none) / 10:.2f} us in the "
                  f"median; a function without all-reduces {usual_none:.1f} us")  # fmt: skip


globals()["check_" + sys.argv[1]]()
