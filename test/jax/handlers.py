#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The handlers of libweft_jax.so that put kernels into XLA's streams, on the emulated driver, without JAX: this program calls them
# as XLA does, in several streams and in graphs. usage: mpiexec -n N handlers.py PREFIX DRIVER
import ctypes
import os
import sys
import tempfile
from ctypes import (
    POINTER,
    Structure,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    sizeof,
)

PREFIX, DRIVER = sys.argv[1:3]
FLOAT, INTEGER, TOKEN = 11, 5, 17  # xla::PrimitiveType
SUM, MEAN, WORLD, ERRORS_RETURN, RELAXED, NON_BLOCKING = 33, 62, 0x101, 0x143, 2, 1
COUNT = 64  # elements


def fields(*more):
    return [("bytes", c_size_t), ("extensions", c_void_p), *more]


class Array(Structure):
    _fields_ = fields(("type", c_int32), ("data", c_void_p), ("rank", c_int64), ("dimensions", POINTER(c_int64)))


class Arrays(Structure):
    _fields_ = fields(("count", c_int64), ("kinds", c_void_p), ("values", c_void_p))


class Text(Structure):
    _fields_ = [("data", c_char_p), ("length", c_size_t)]


class Scalar(Structure):
    _fields_ = [("type", c_int32), ("value", c_void_p)]


class Attributes(Structure):
    _fields_ = fields(("count", c_int64), ("kinds", c_void_p), ("names", c_void_p), ("values", c_void_p))


class Version(Structure):
    _fields_ = fields(("major", c_int32), ("minor", c_int32))


class CreateError(Structure):
    _fields_ = fields(("message", c_char_p), ("code", c_int32))


class GetStream(Structure):
    _fields_ = fields(("context", c_void_p), ("stream", c_void_p))


class Api(Structure):
    _fields_ = fields(("version", Version), ("internal", c_void_p), ("create_error", c_void_p), ("get_message", c_void_p),
                      ("destroy_error", c_void_p), ("register_handler", c_void_p), ("get_stream", c_void_p))  # fmt: skip


class Frame(Structure):
    _fields_ = fields(("api", c_void_p), ("context", c_void_p), ("stage", c_int32), ("operands", Arrays), ("results", Arrays),
                      ("attributes", Attributes))  # fmt: skip


if not os.path.exists(os.path.join(os.environ.get("LD_LIBRARY_PATH", "").split(":")[0], "libcuda.so.1")):
    folder = tempfile.mkdtemp()  # the handlers find the driver by the name under which XLA has loaded it
    os.symlink(DRIVER, os.path.join(folder, "libcuda.so.1"))
    path = folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_LIBRARY_PATH": path})
folder = os.environ["LD_LIBRARY_PATH"].split(":")[0]
cuda = ctypes.CDLL("libcuda.so.1")
os.unlink(os.path.join(folder, "libcuda.so.1"))
os.rmdir(folder)
mpi = ctypes.CDLL(os.path.join(PREFIX, "lib", "libmpi_abi.so.1"), ctypes.RTLD_GLOBAL)
module = ctypes.CDLL(os.path.join(PREFIX, "lib", "libweft_jax.so"))
module.weft_jax_add_communicator.argtypes = [c_void_p]
module.weft_jax_reduces.argtypes = [c_int, c_int, c_int64]
errors, stream_of_call = [], [0]


@ctypes.CFUNCTYPE(c_void_p, POINTER(CreateError))
def create_error(arguments):
    errors.append(arguments[0].message.decode())
    return 1


@ctypes.CFUNCTYPE(c_void_p, POINTER(GetStream))
def get_stream(arguments):
    arguments[0].stream = stream_of_call[0]


def address(function):
    return ctypes.cast(function, c_void_p).value


API = Api(sizeof(Api), None, Version(sizeof(Version), None, 0, 3), None, address(create_error), None, None, None,
          address(get_stream))  # fmt: skip


def driver(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name}: error {code}"


class Memory:
    """Floats in GPU memory."""

    def __init__(self, values=(-1.0,) * COUNT):
        self.count, self.address = len(values), c_uint64()
        if values:
            driver("cuMemAlloc_v2", byref(self.address), c_size_t(4 * self.count))
            self.set(values)

    def set(self, values):
        data = (ctypes.c_float * self.count)(*values)
        driver("cuMemcpyHtoD_v2", self.address, data, c_size_t(4 * self.count))
        driver("cuStreamSynchronize", None)  # other streams do not wait for the copy

    def get(self):
        data = (ctypes.c_float * self.count)()
        driver("cuMemcpyDtoH_v2", data, self.address, c_size_t(4 * self.count))
        return list(data)


def addresses(objects):
    return (c_void_p * len(objects))(*map(addressof, objects))


def arrays(memories, kept):
    """Returns the arrays of memories, and a token; `kept` gets what they refer to."""
    made = [Array(sizeof(Array), None, TOKEN, None, 0, None)]
    for memory in reversed(memories):
        dimensions = (c_int64 * 1)(memory.count)
        made.insert(0, Array(sizeof(Array), None, FLOAT, memory.address.value, 1, dimensions))
        kept.append(dimensions)
    kinds, values = (c_int32 * len(made))(*[1] * len(made)), addresses(made)
    kept.extend([*made, kinds, values])
    return Arrays(sizeof(Arrays), None, len(made), addressof(kinds), addressof(values))


def attributes_of(numbers, kept):
    values = [c_int64(number) for number in numbers.values()]
    names = [Text(name.encode(), len(name)) for name in numbers]
    scalars = [Scalar(INTEGER, addressof(value)) for value in values]
    kinds = (c_int32 * len(numbers))(*[3] * len(numbers))
    lists = addresses(names), addresses(scalars)
    kept.extend([values, names, scalars, kinds, lists])
    return Attributes(sizeof(Attributes), None, len(numbers), addressof(kinds), *map(addressof, lists))


def call(handler, stream, operand, result, **numbers):
    """Calls a handler as XLA does. Returns whether it has returned an error."""
    kept = []
    stream_of_call[0] = stream
    frame = Frame(sizeof(Frame), None, addressof(API), None, 3, arrays([operand], kept), arrays([result], kept),
                  attributes_of({"comm": 0, **numbers}, kept))  # fmt: skip
    function = getattr(module, "weft_jax_" + handler)
    function.restype, function.argtypes = c_void_p, [c_void_p]
    return function(addressof(frame)) is not None


def run(name, stream, operand, result, kind="kernel", **numbers):
    assert not call(f"{name}_{kind}", stream, operand, result, **numbers), errors[-1]


def same(memory, wanted, what):
    found = memory.get()
    assert found == list(wanted), f"rank {RANK}: {what}: {found[:3]} ..., not {list(wanted)[:3]} ..."


def synchronize():
    for stream in STREAMS:
        driver("cuStreamSynchronize", c_void_p(stream))


def check_opening():
    """One process whose GPU cannot be used, or that has none, is an answer for all; after that they can try again."""
    module.weft_jax_problem.restype = c_char_p
    last = SIZE - 1
    assert module.weft_jax_open_kernels(0, 99 if RANK == last else RANK) == -1
    wanted = b"GPU number 99 has no context" if RANK == last else b"the GPU of another process cannot be used"
    assert module.weft_jax_problem() == wanted, module.weft_jax_problem()
    assert module.weft_jax_open_kernels(0, -1 if RANK == last else RANK) == 0
    assert module.weft_jax_open_kernels(0, RANK) == 1


def check_streams():
    """Calls whose data do not depend on each other, in several streams."""
    for before_change in (1, 3):
        operands = [Memory([float(RANK + i)] * COUNT) for i in range(12)]
        results = [Memory() for _ in operands]
        for i, (operand, result) in enumerate(zip(operands, results)):
            run("allreduce", STREAMS[i // before_change % 3], operand, result, op=SUM)
        synchronize()
        for i, result in enumerate(results):
            same(result, [RANKS + SIZE * float(i)] * COUNT, f"call {i}")


def check_collectives():
    first, second, _ = STREAMS
    operand = Memory([float(1000 * RANK + i) for i in range(COUNT * SIZE)])
    part, exchanged, all_of = Memory(), Memory([0.0] * (COUNT * SIZE)), Memory([0.0] * (COUNT * SIZE * SIZE))
    shared = Memory([float(RANK)] * COUNT)
    run("reduce_scatter", first, operand, part, op=SUM)
    run("allgather", second, operand, all_of)
    run("alltoall", first, operand, exchanged)
    run("bcast", second, shared, shared, root=SIZE - 1)
    synchronize()
    own = range(RANK * COUNT, (RANK + 1) * COUNT)
    same(part, [1000 * RANKS + SIZE * i for i in own], "reduce_scatter")
    same(all_of, [1000 * rank + i for rank in range(SIZE) for i in range(COUNT * SIZE)], "allgather")
    same(exchanged, [1000 * rank + i for rank in range(SIZE) for i in own], "alltoall")
    same(shared, [SIZE - 1.0] * COUNT, "bcast")
    empty = Memory(())
    run("allreduce", first, empty, empty, op=SUM)
    run("allgather", second, empty, empty)
    run("allreduce", first, shared, shared, op=SUM)
    synchronize()
    same(shared, [(SIZE - 1.0) * SIZE] * COUNT, "in place")


def check_messages():
    operand, result = Memory([float(RANK)] * COUNT), Memory()
    ring = {"source": (RANK - 1) % SIZE, "dest": (RANK + 1) % SIZE}
    chain = {"source": RANK - 1, "dest": RANK + 1 if RANK + 1 < SIZE else -1}
    for numbers, wanted in (
        (ring, (RANK - 1) % SIZE),
        (chain, max(RANK - 1, 0)),
        ({"source": RANK, "dest": RANK}, RANK),
    ):
        for stream in STREAMS[:2]:
            result.set([-1.0] * COUNT)
            run("sendrecv", stream, operand, result, sendtag=3, recvtag=3, **numbers)
            synchronize()
            same(result, [float(wanted)] * COUNT, f"a message, {numbers}")
    empty = Memory(())
    run("sendrecv", STREAMS[0], empty, empty, sendtag=3, recvtag=3, **ring)


def check_graphs():
    """A graph beside calls in other streams, and beside calls of the host."""
    operand, once, twice, ones, total = Memory(), Memory(), Memory(), Memory([1.0] * COUNT), Memory()
    graph, executable, captured = c_void_p(), c_void_p(), c_void_p(STREAMS[2])
    driver("cuStreamBeginCapture_v2", captured, RELAXED)
    run("allreduce", STREAMS[2], operand, once, op=SUM)
    run("allreduce", STREAMS[2], once, twice, op=SUM)
    driver("cuStreamEndCapture", captured, byref(graph))
    driver("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for i in range(6):
        operand.set([float(RANK + i)] * COUNT)
        driver("cuGraphLaunch", executable, c_void_p(STREAMS[0]))
        synchronize()
        same(once, [RANKS + SIZE * float(i)] * COUNT, f"launch {i}")
        same(twice, [SIZE * (RANKS + SIZE * float(i))] * COUNT, f"launch {i}")
        run("allreduce", STREAMS[i % 3], ones, total, op=SUM)
        run("allreduce", STREAMS[i % 3], total, once, kind="gpu", op=SUM)
        synchronize()
        same(once, [float(SIZE * SIZE)] * COUNT, f"kernels, then the host, after launch {i}")
    driver("cuGraphExecDestroy", executable)
    driver("cuGraphDestroy", graph)


def check_end():
    ones = Memory([1.0] * COUNT)
    assert call("allreduce_kernel", STREAMS[0], ones, ones, comm=7, op=SUM)
    assert "this process has not made" in errors[-1], errors
    driver("cuCtxSetCurrent", None)  # the thread in which Python ends may have used no GPU
    module.weft_jax_forget_communicators()
    driver("cuCtxSetCurrent", context)
    assert call("allreduce_kernel", STREAMS[0], ones, ones, op=SUM)


mpi.MPI_Init(None, None)
rank, size, context, device, duplicate = c_int(), c_int(), c_void_p(), c_int(), c_void_p()
mpi.MPI_Comm_rank(c_void_p(WORLD), byref(rank))
mpi.MPI_Comm_size(c_void_p(WORLD), byref(size))
RANK, SIZE = rank.value, size.value
RANKS = float(sum(range(SIZE)))  # of a sum over the ranks
driver("cuInit", 0)
driver("cuDeviceGet", byref(device), RANK)
driver("cuDevicePrimaryCtxRetain", byref(context), device)
driver("cuCtxSetCurrent", context)
STREAMS = []
for _ in range(3):
    made = c_void_p()
    driver("cuStreamCreate", byref(made), NON_BLOCKING)
    STREAMS.append(made.value)
mpi.MPI_Comm_dup(c_void_p(WORLD), byref(duplicate))
mpi.MPI_Comm_set_errhandler(duplicate, c_void_p(ERRORS_RETURN))
assert module.weft_jax_add_communicator(duplicate) == 0
check_opening()
assert [module.weft_jax_reduces(0, FLOAT, op) for op in (SUM, MEAN)] == [1, 0]
for check in (check_streams, check_collectives, check_messages, check_graphs, check_end):
    check()
mpi.MPI_Comm_free(byref(duplicate))
mpi.MPI_Finalize()
