#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Calls that differ between the processes, arguments that do not fit, and ends of groups, stores and time limits.
# usage: edges.py CHECK [CHECK ...], by torchrun or mpiexec
import contextlib
import os
import sys
import threading
import time
import types
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from process_group import same, start
from torch.distributed import ReduceOp

PREMULTIPLIED = torch._C._distributed_c10d._make_nccl_premul_sum


@contextlib.contextmanager
def raises(kind, text):
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no exception: {text}")


def mixed():
    """Some processes wait for an operation and others do not, as in torch's Join; some pass sizes that others leave out."""
    rank, size = start(timeout=timedelta(seconds=20))
    waits = rank != 0
    tensor, outputs = torch.ones(1000), [torch.zeros(2) for _ in range(size)]
    whole, part = torch.zeros(2 * size), torch.zeros(2)
    works = [
        dist.all_reduce(tensor, async_op=not waits),
        dist.all_gather(outputs, torch.full((2,), float(rank)), async_op=not waits),
        dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)), async_op=not waits),
        dist.reduce_scatter_tensor(part, torch.ones(2 * size), async_op=not waits),
        dist.broadcast(torch.ones(3), 0, async_op=not waits),
        dist.barrier(async_op=not waits),
    ]
    for work in works:
        assert waits or work.wait()
    same(tensor, torch.full((1000,), float(size)))
    same(whole, torch.arange(float(size)).repeat_interleave(2))
    same(torch.cat(outputs), whole)
    same(part, torch.full((2,), float(size)))
    out, splits = torch.zeros(size), [1] * size
    dist.all_to_all_single(out, torch.full((size,), float(rank)), *((splits, splits) if waits else ()))
    same(out, torch.arange(float(size)))
    dist.destroy_process_group()


def arguments():
    rank, size = start(timeout=timedelta(seconds=20))
    with raises(ValueError, "all_gather: the tensor of the list for this process has 5 elements, its own has 3"):
        dist.all_gather([torch.zeros(5) for _ in range(size)], torch.zeros(3))
    with raises(ValueError, "reduce_scatter: the tensor of the list for this process has 5 elements, its own has 3"):
        dist.group.WORLD.reduce_scatter([torch.zeros(3)], [[torch.zeros(5) for _ in range(size)]])
    with raises(ValueError, "convert the tensor to a floating-point type"):
        dist.all_reduce(torch.ones(3, dtype=torch.int32), PREMULTIPLIED(0.5))
    # The factor has another type than the tensor.
    tensor = torch.full((5,), rank + 1.0, dtype=torch.float16)
    dist.all_reduce(tensor, PREMULTIPLIED(torch.tensor([0.5], dtype=torch.float64)))
    same(tensor, torch.full((5,), size * (size + 1) / 4, dtype=torch.float16))
    # The sum exceeds the largest number of the type, the average does not.
    tensor = torch.full((5,), 60000.0, dtype=torch.float16)
    dist.all_reduce(tensor, ReduceOp.AVG)
    same(tensor, torch.full((5,), 60000.0, dtype=torch.float16))
    # Tensors whose memory holds the conjugates or the negatives of their elements, some of which torch's functions refuse.
    world = dist.group.WORLD
    conjugates = torch.tensor([1 + 2j, 3 - 1j])
    for view, expected in ((conjugates.conj(), [1 - 2j, 3 + 1j]), (torch._neg_view(torch.ones(2)), [-1.0, -1.0])):
        assert view.is_contiguous()
        tensor = view if rank == 0 else torch.zeros(2, dtype=view.dtype)
        world.broadcast([tensor], 0).wait()
        same(tensor.resolve_conj().resolve_neg(), torch.tensor(expected))
        outputs = [torch.zeros(2, dtype=view.dtype) for _ in range(size)]
        world.allgather([outputs], [view]).wait()
        same(torch.stack(outputs), torch.tensor([expected] * size))
    target = torch.zeros(2, dtype=torch.complex64)
    world.broadcast([conjugates if rank == 0 else target.conj()], 0).wait()
    same(target, torch.zeros(2, dtype=torch.complex64) if rank == 0 else torch.tensor([1 - 2j, 3 + 1j]))
    tensor = torch.tensor([1 + 2j]).conj()
    world.allreduce([tensor]).wait()
    same(tensor.resolve_conj(), torch.tensor([1 - 2j]) * size)
    dist.destroy_process_group()


def half_begun():
    """The second call of an operation fails: the tensor of the first one lives until that is complete."""
    rank, _ = start(timeout=timedelta(seconds=20))
    from weft_mpi.torch import collectives

    dist.barrier()
    if rank != 0:
        time.sleep(2)
    tensor = torch.full((3,), float(rank))
    reference = weakref.ref(tensor)
    calls = [collectives.broadcast(tensor, 1), collectives.broadcast(torch.zeros(3), 99)]
    with raises(dist.DistBackendError, "root"):
        dist.group.WORLD.run("broadcast", calls)
    del tensor, calls
    assert rank != 0 or reference() is not None
    end = time.monotonic() + 20
    while reference() is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert reference() is None
    dist.barrier()
    dist.destroy_process_group()


def callbacks():
    """Many callbacks of futures that wait for a later one."""
    rank, _ = start(timeout=timedelta(seconds=60))
    event, count = threading.Event(), 100
    dist.barrier()
    if rank == 0:
        futures = [dist.irecv(torch.zeros(1), 1, tag=tag).get_future() for tag in range(count)]
        waiting = [future.then(lambda _: event.wait(20)) for future in futures[:-1]]
        futures[-1].add_done_callback(lambda _: event.set())
        assert all(future.wait() for future in waiting)
    elif rank == 1:
        time.sleep(1)
        for tag in range(count):
            dist.send(torch.zeros(1), 0, tag=tag)
    dist.destroy_process_group()


def own_limit():
    """The time limit of one nonblocking operation, far below that of the group."""
    rank, _ = start(timeout=timedelta(seconds=300))
    dist.barrier()
    if rank == 0:
        options = dist.AllreduceOptions()
        options.timeout, options.asyncOp = timedelta(seconds=1), True
        begin = time.monotonic()
        with raises(dist.DistBackendError, "Timed out in all_reduce"):
            dist.group.WORLD.allreduce([torch.ones(3)], options).wait()
        assert 0.9 < time.monotonic() - begin < 20
    else:
        with raises(dist.DistBackendError, "another process has aborted the group"):
            dist.recv(torch.ones(1), 0)
    dist.destroy_process_group()


def destroyed():
    """Operations in flight end with the group, and the processes can form another one."""
    rank, size = start(timeout=timedelta(seconds=300))
    dist.barrier()
    works = []
    if rank == 0:
        works = [dist.irecv(torch.zeros(3), 1), dist.irecv(torch.zeros(3))]
    dist.destroy_process_group()
    for work in works:
        with raises(dist.DistBackendError, "destroyed while operations were in flight"):
            work.wait()
    start()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((3,), float(size)))
    dist.destroy_process_group()


def contacts():
    """Processes of two hosts that first meet after some of them have formed a group of their own."""
    rank, size = start(timeout=timedelta(seconds=20))
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=pair)
        same(tensor, torch.full((3,), 2.0))
    for other in range(size):
        tensor = torch.full((3,), float(rank))
        if rank < other:
            dist.send(tensor, other)
        elif rank == other:
            for sender in range(rank):
                dist.recv(tensor, sender)
                same(tensor, torch.full((3,), float(sender)))
    dist.destroy_process_group()


def regrouped():
    """Groups of the same name, of one store, have other processes after a new start."""
    for number, members in enumerate(([1, 2], [0, 1])):
        rank, _ = start(timeout=timedelta(seconds=20))
        if number == 1 and rank == 1:
            time.sleep(
                1
            )  # the others must not take the place of this process in the first group for that in the second
        group = dist.new_group(members)
        if rank in members:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.tensor([float(sum(members))]))
        dist.barrier()
        dist.destroy_process_group()


def other_backend():
    """Processes of mpiexec that number themselves, for another backend: in reverse."""
    import weft_mpi.torch  # noqa: F401

    rank, size = int(os.environ["PMI_SIZE"]) - 1 - int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, 0)
    same(tensor, torch.zeros(1))
    dist.destroy_process_group()


def failing_store(failure, kind):
    """A store of the program fails with the exception `failure`: init_process_group raises one of type `kind`."""
    from weft_mpi import processes as job
    from weft_mpi.torch import start as start_up

    class Broken:
        def set(self, key, value):
            if key.startswith(job.VALUE_KEY):
                raise failure("no route to the store")

        def get(self, key):
            return {job.NAME_KEY: b"name"}.get(key, job.NEW)

        def check(self, keys):
            return False

    limit = timedelta(seconds=20)
    options = types.SimpleNamespace(store=Broken(), group_rank=0, group_size=2, group_id="0", timeout=limit)
    with raises(kind, f"{failure.__name__}: no route to the store"):
        start_up.create(options)


def store():
    from weft_mpi import processes as job

    failing_store(LookupError, dist.DistBackendError)
    used = dist.HashStore()
    used.set(f"{job.STATE_KEY}/1", job.NEW)
    with raises(RuntimeError, "keys of an earlier process with rank 1"):
        job.Job().connect(used, 1, 2)


def store_of_torch():
    failing_store(dist.DistNetworkError, dist.DistNetworkError)


def attempts():
    """torchrun starts all processes again after one has failed."""
    rank, _ = start(timeout=timedelta(seconds=20))
    dist.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if rank == 0:
            os._exit(1)
        with raises(dist.DistBackendError, "rank 0 of the group has ended"):
            dist.barrier()
        time.sleep(60)  # until torchrun ends this process
    dist.barrier()
    print("second attempt", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for check in sys.argv[1:]:
        globals()[check]()
        print(f"passed: {check}", flush=True)
