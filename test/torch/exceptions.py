#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The exceptions of mistakes and failures, for a comparison of backends. Prints a line of JSON: for each case the names of the
# exception's type and its base types, or none.
# usage: exceptions.py BACKEND, by torchrun with 2 processes
import functools
import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

BACKEND = sys.argv[1]
if BACKEND == "weft" and not hasattr(dist.Backend, "WEFT"):
    import weft_mpi.torch  # noqa: F401
found = {}


def note(name, function):
    """Runs a case that has no effect on later ones."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-except
        found[name] = [kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException, Exception)]
    else:
        found[name] = []


def options(kind, **fields):
    made = kind()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def arguments(rank, size):
    """Calls that all processes make, and that no backend begins."""
    world = dist.group.WORLD
    ones = lambda *shape, **words: torch.ones(*shape, **words)  # noqa: E731
    half = lambda count: ones(count, dtype=torch.float16)  # noqa: E731
    note("all_reduce: two tensors", lambda: world.allreduce([ones(2), ones(2)]).wait())
    note("all_reduce: meta", lambda: dist.all_reduce(ones(2, device="meta")))
    note("all_reduce: bits of float", lambda: dist.all_reduce(ones(2), ReduceOp.BAND))
    note("all_reduce: sparse minimum", lambda: dist.all_reduce(ones(2).to_sparse(), ReduceOp.MIN))
    note("all_reduce: not a tensor", lambda: dist.all_reduce(3))
    note(
        "broadcast: root 9 of the group",
        lambda: world.broadcast([ones(2)], options(dist.BroadcastOptions, rootRank=9)).wait(),
    )
    note("broadcast: root of no process", lambda: dist.broadcast(ones(2), 9))
    note("all_gather: other size", lambda: dist.all_gather([ones(3) for _ in range(size)], ones(2)))
    note("all_gather: other type", lambda: dist.all_gather([ones(2) for _ in range(size)], half(2)))
    note("all_gather: too few tensors", lambda: dist.all_gather([ones(2)], ones(2)))
    note("all_gather_into_tensor: other size", lambda: dist.all_gather_into_tensor(ones(3), ones(2)))
    note("all_gather_into_tensor: other type", lambda: dist.all_gather_into_tensor(ones(2 * size), half(2)))
    note("reduce_scatter_tensor: other size", lambda: dist.reduce_scatter_tensor(ones(2), ones(3)))
    note("reduce_scatter_tensor: other type", lambda: dist.reduce_scatter_tensor(half(2), ones(2 * size)))
    note("reduce_scatter: too few tensors", lambda: dist.reduce_scatter(ones(2), [ones(2)]))
    note("all_to_all_single: not divisible", lambda: dist.all_to_all_single(ones(3), ones(3)))
    note("all_to_all_single: sizes", lambda: dist.all_to_all_single(ones(4), ones(4), [1, 1], [1, 1]))
    note("all_to_all_single: too few sizes", lambda: dist.all_to_all_single(ones(4), ones(4), [4], [4]))
    note("all_to_all_single: other type", lambda: dist.all_to_all_single(ones(4), half(4)))
    if rank == 0:  # the others do not take part in calls that fail at the root
        note("gather: too few tensors", lambda: dist.gather(ones(2), [ones(2)], 0))
        note("scatter: too few tensors", lambda: dist.scatter(ones(2), [ones(2)], 0))
    note("send: to itself", lambda: dist.send(ones(2), rank))
    note("batch of no operations of messages", lambda: dist.batch_isend_irecv([3]))


def failures(rank):
    """Each in a group of its own, which is of no use after it."""
    limit = timedelta(seconds=1)
    for name, call in {
        "time limit of all_reduce": lambda group: dist.all_reduce(torch.ones(2), group=group),
        "time limit of barrier": lambda group: dist.barrier(group=group),
        "time limit of recv": lambda group: dist.recv(torch.ones(2), 1, group=group),
        "time limit of monitored_barrier": lambda group: dist.monitored_barrier(group, timeout=limit),
    }.items():
        group = dist.new_group([0, 1], timeout=limit)
        if rank == 0:
            note(name, functools.partial(call, group))
        dist.barrier()
    group = dist.new_group([0, 1])
    dist.destroy_process_group(group)
    note("all_reduce after destroy_process_group", lambda: dist.all_reduce(torch.ones(2), group=group))
    dist.barrier()


def death(rank):
    """The last case: the other process ends."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.set("ended", "")
        os._exit(0)
    store.wait(["ended"])
    note("death of a process", lambda: dist.all_reduce(torch.ones(1 << 20)))


def starts():
    """init_process_group by one process, in the place of the pair."""
    short = {"timeout": timedelta(seconds=1), "world_size": 2}
    note("start: nobody serves the store", lambda: dist.init_process_group(
        BACKEND, init_method="tcp://127.0.0.1:9", rank=1, **short))  # fmt: skip
    note("start: the other process is missing", lambda: dist.init_process_group(
        BACKEND, init_method="tcp://127.0.0.1:0", rank=0, **short))  # fmt: skip
    store = dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=1), wait_for_workers=False)
    note("start: the other process does not come", lambda: dist.init_process_group(
        BACKEND, store=store, rank=0, **short))  # fmt: skip


def main():
    if "RANK" not in os.environ:
        starts()
        print(json.dumps(found), flush=True)
        return
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=20))
    rank, size = dist.get_rank(), dist.get_world_size()
    arguments(rank, size)
    dist.barrier()
    failures(rank)
    death(rank)
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
