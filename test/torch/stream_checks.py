# SPDX-License-Identifier: BSD-3-Clause
# Checks of process_group.py with tensors in GPU memory: operations in streams and graphs, their time limits and deaths.
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from process_group import same, start
from torch.distributed import ReduceOp


def streams():
    """On GPUs: operations in several streams and in graphs, between operations of the host, and unused results."""
    rank, size = start()
    device = torch.device("cuda", torch.cuda.current_device())
    assert dist.all_reduce(torch.ones(3)) is None
    assert dist.group.WORLD.kernels[device.index] is not None, "the host executes the operations"
    tensor, streams = torch.ones(1 << 20), [torch.cuda.Stream() for _ in range(3)]
    for i in range(30):  # whose order only the tensor tells
        before = torch.cuda.current_stream()
        with torch.cuda.stream(streams[i % 3]):
            streams[i % 3].wait_stream(before)
            dist.all_reduce(tensor, ReduceOp.AVG)
            tensor += 1
        before.wait_stream(streams[i % 3])
    same(tensor, torch.full((1 << 20,), 31.0))
    # Memory that is freed at once is not used again too early.
    results = []
    for i in range(50):
        temporary = torch.full((1 << 18,), float(i))
        work = dist.all_reduce(temporary, async_op=True)
        if i % 2:
            work.wait()
            results.append(temporary[:3].clone())
        del temporary, work
        torch.full((1 << 18,), -1.0)
    same(torch.stack(results)[:, 0], torch.arange(1.0, 50, 2) * size)
    mixed = torch.full((5,), float(rank))
    for i in range(10):  # kernels and host in turn
        dist.all_reduce(mixed)
        dist.reduce(mixed, i % size)
        dist.broadcast(mixed, i % size)
        dist.barrier()
        mixed.fill_(float(rank))
    dist.all_reduce(mixed)
    same(mixed, torch.full((5,), size * (size - 1) / 2))
    static = torch.zeros(5000)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = static + 1
        dist.all_reduce(total)
        work = dist.all_reduce(total, ReduceOp.AVG, async_op=True)
        work.wait()
        gathered = torch.empty(size * 5000)
        dist.all_gather_into_tensor(gathered, total)
    for i in range(20):
        static.fill_(float(i))
        graph.replay()
        same(gathered, torch.full((size * 5000,), (i + 1.0) * size))
        if i % 3 == 0:
            dist.all_reduce(mixed, ReduceOp.AVG, async_op=True).wait()
            same(mixed, torch.full((5,), size * (size - 1) / 2))
    # Branches of a graph.
    side, branches = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(branches):
        left, right = static + 1, static + 2
        side.wait_stream(torch.cuda.current_stream())
        dist.all_reduce(left)
        with torch.cuda.stream(side):
            dist.all_reduce(right)
        dist.all_reduce(left)
        torch.cuda.current_stream().wait_stream(side)
    for i in range(20):
        static.fill_(float(i))
        branches.replay()
        same(left, torch.full((5000,), (i + 1.0) * size * size))
        same(right, torch.full((5000,), (i + 2.0) * size))
    dist.all_reduce(torch.ones(1 << 20), async_op=True)  # ends before the group
    dist.destroy_process_group()


def stream_time_limit():
    """On GPUs: kernels leave after the time limit, and the processes learn of it in their next operation."""
    rank, _ = start(timeout=timedelta(seconds=2))
    dist.all_reduce(torch.ones(3))
    torch.cuda.synchronize()
    begin = time.monotonic()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        torch.cuda.synchronize()
        assert 1.9 < time.monotonic() - begin < 10, time.monotonic() - begin
        assert not work.is_success()
    else:
        time.sleep(4)
    try:
        for _ in range(50):  # the first one of another process may find the data of this one
            dist.all_reduce(torch.ones(3))
            time.sleep(0.02)
    except dist.DistBackendError as error:
        expected = "Timed out in all_reduce" if rank == 0 else "another process has aborted the group"
        assert expected in str(error), error
        print("timed out", flush=True)
    else:
        raise AssertionError("no exception")
    dist.destroy_process_group()


def stream_death():
    """On GPUs: kernels that wait for a process that has ended leave."""
    rank, size = start()
    dist.all_reduce(torch.ones(3))
    torch.cuda.synchronize()
    dist.barrier()
    if rank == size - 1:
        os._exit(0)
    begin = time.monotonic()
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    torch.cuda.synchronize()
    assert time.monotonic() - begin < 5
    assert not work.is_success()
    try:
        dist.all_reduce(torch.ones(1 << 20))
    except dist.DistBackendError as error:
        assert f"rank {size - 1} of the group has ended" in str(error), error
        print("named", flush=True)
    else:
        raise AssertionError("no exception")
