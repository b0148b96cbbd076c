#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Kernels in streams on the emulated driver, whose streams and events take the place of torch's: their ends, ended processes and
# graphs. The emulated driver has no events in captures; stream_order.py has the order of captured operations.
# usage: WEFT_CUDA_DRIVER=libweft-emucuda.so EMUCUDA_DEVICES=3 torchrun --nproc-per-node 3 emulated.py CHECK
import ctypes
import os
import sys
import threading
import time
import types
from datetime import timedelta

import torch
import torch.distributed as dist

COUNT, NOT_READY, RELAXED, FLOAT, SUM = 1000, 600, 2, 528, 33
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
state = types.SimpleNamespace(captured=False)
context, local = ctypes.c_void_p(), threading.local()
library = ctypes.CDLL(os.environ["WEFT_CUDA_DRIVER"])


def driver(name, *arguments):
    code = getattr(library, name)(*arguments)
    if code not in (0, NOT_READY):
        raise RuntimeError(f"{name}: error {code}")
    return code


class Stream:
    device_index = device_type = 0

    def __init__(self, _device=None, priority=0):
        handle = ctypes.c_void_p()
        driver("cuStreamCreateWithPriority", ctypes.byref(handle), 1, priority)
        self.cuda_stream = self.stream_id = handle.value

    def wait_event(self, event):
        if not state.captured:
            driver("cuStreamWaitEvent", ctypes.c_void_p(self.cuda_stream), event.handle, 0)

    def record_event(self):
        event = Event()
        event.record(self)
        return event

    def synchronize(self):
        driver("cuStreamSynchronize", ctypes.c_void_p(self.cuda_stream))


class Event:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        driver("cuEventCreate", ctypes.byref(self.handle), 2)

    def record(self, stream):
        if not state.captured:
            driver("cuEventRecord", self.handle, ctypes.c_void_p(stream.cuda_stream))


class Driver:
    """The emulated driver for the module, which has no events in captures."""

    def __getattr__(self, name):
        return getattr(library, name)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def cuEventRecord(event, stream):
        return 0 if state.captured else library.cuEventRecord(ctypes.c_void_p(event), ctypes.c_void_p(stream))

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    def cuStreamWaitEvent(stream, event, flags):
        if state.captured:
            return 0
        return library.cuStreamWaitEvent(ctypes.c_void_p(stream), ctypes.c_void_p(event), flags)


class Guard:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before = current()
        if isinstance(self.stream, Stream):
            local.stream = self.stream

    def __exit__(self, *_):
        local.stream = self.before


def current(_device=None):
    return getattr(local, "stream", main)


def set_device(_index=None):
    driver("cuCtxSetCurrent", context)
    local.device = rank


def replace_cuda():
    device, cuda = ctypes.c_int(), torch.cuda
    driver("cuInit", 0)
    driver("cuDeviceGet", ctypes.byref(device), rank)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    set_device()
    cuda.Stream, cuda.Event, cuda.stream, cuda.device = Stream, Event, Guard, Guard
    cuda.current_device, cuda.set_device, cuda.current_stream = (
        lambda: getattr(local, "device", -1),
        set_device,
        current,
    )
    cuda.is_current_stream_capturing = lambda: state.captured
    torch._C._cuda_getDevice = lambda: rank
    torch._C._cuda_getCurrentRawStream = lambda _index: current().cuda_stream


replace_cuda()
main = Stream()
if not hasattr(dist.Backend, "WEFT"):
    import weft_mpi.torch  # noqa: F401
from weft_mpi import mpi  # noqa: E402
from weft_mpi.torch import native  # noqa: E402
from weft_mpi.torch.collectives import Call  # noqa: E402

native.driver = Driver
buffer = ctypes.c_uint64()


def fill(value):
    data = (ctypes.c_float * COUNT)(*[value] * COUNT)
    driver("cuMemcpyHtoD_v2", buffer, data, ctypes.c_size_t(4 * COUNT))


def values():
    data = (ctypes.c_float * COUNT)()
    driver("cuMemcpyDtoH_v2", data, buffer, ctypes.c_size_t(4 * COUNT))
    return set(data)


def all_reduce(asynchronous=False):
    call = Call("Allreduce_c", (mpi.IN_PLACE, buffer.value, COUNT, FLOAT, SUM), ())
    options = types.SimpleNamespace(asyncOp=asynchronous, timeout=timedelta(0))
    return dist.group.WORLD.kernels[rank].run("all_reduce", [call], options, [])


def start(seconds=60):
    """Returns the group, whose first operation in streams is complete."""
    dist.init_process_group("weft", timeout=timedelta(seconds=seconds))
    group = dist.group.WORLD
    driver("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4 * COUNT))
    fill(1.0)
    assert group.kernels_for(torch.device("cuda", rank), "all_reduce", [Call("Allreduce_c", (), ())]) is not None
    all_reduce()
    main.synchronize()
    assert values() == {float(size)}, values()
    group.kernels[rank].check()
    assert group.failure is None, group.failure
    dist.barrier()
    return group


def together():
    group = start()
    for i in range(20):
        all_reduce(bool(i % 2))
    time.sleep(0.1 * rank)
    dist.destroy_process_group()
    assert group.failure is None, group.failure


def graphs():
    group, graph, launched = start(), ctypes.c_void_p(), ctypes.c_void_p()
    stream = ctypes.c_void_p(main.cuda_stream)
    driver("cuStreamBeginCapture_v2", stream, RELAXED)
    state.captured = True
    all_reduce()
    all_reduce()
    assert group.kernels[rank].captured
    state.captured = False
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver("cuGraphInstantiateWithFlags", ctypes.byref(launched), graph, ctypes.c_uint64(0))
    for _ in range(5):
        fill(1.0)
        driver("cuGraphLaunch", launched, stream)
        main.synchronize()
        assert values() == {float(size) ** 2}, values()
        all_reduce()
        main.synchronize()
    if rank == 0:  # the others learn of it without further operations
        time.sleep(2)
        group.abort()
    end = time.monotonic() + 20
    while group.failure is None and time.monotonic() < end:
        time.sleep(0.01)
    assert group.failure is not None
    dist.destroy_process_group()


def death():
    """A kernel that leaves since a rank has ended is no success."""
    group = start()
    if rank == size - 1:
        os._exit(0)
    begin, work = time.monotonic(), all_reduce(True)
    while not work.kernels.queue.complete(work.ticket):
        time.sleep(1e-4)
    assert not work.is_success()
    assert time.monotonic() - begin < 5
    assert f"rank {size - 1} of the group has ended" in group.failure, group.failure
    dist.destroy_process_group()


def handler():
    """A process ends the group in the handler of an exception, while kernels of the others wait for it."""
    start()
    begin = time.monotonic()
    try:
        if rank == 0:
            raise LookupError
        for _ in range(1000):
            all_reduce()
            time.sleep(0.02)
    except LookupError:
        dist.destroy_process_group()
    except dist.DistBackendError as error:
        assert "another process has aborted the group" in str(error), error
        dist.destroy_process_group()
    assert 4 < time.monotonic() - begin < 15, time.monotonic() - begin


def time_limit():
    """A process ends the group long after the others."""
    start(2)
    begin = time.monotonic()
    if rank == 0:
        time.sleep(6)
    dist.destroy_process_group()
    assert rank == 0 or 1.5 < time.monotonic() - begin < 5, time.monotonic() - begin


if __name__ == "__main__":
    globals()[sys.argv[1]]()
