#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# torch.compile, functional collectives, and tensors that consist of others.
# usage: compiled.py CHECK [CHECK ...], by torchrun, 2 processes
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from edges import raises
from process_group import same, start
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel


def tensors():
    """Tensors without memory: results of functional collectives, which are awaited, and others, which are refused."""
    rank, size = start()
    world = dist.group.WORLD
    total = size * (size + 1) / 2

    def pending():
        return functional.all_reduce(torch.full((4,), rank + 1.0), "sum", world)

    assert type(pending()) is not torch.Tensor
    tensor = pending()
    dist.all_reduce(tensor)
    same(tensor + 0, torch.full((4,), total * size))
    outputs = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(outputs, pending())
    same(torch.stack(outputs), torch.full((size, 4), total))
    output = torch.zeros(4)
    dist.all_to_all_single(output, pending(), [4 // size] * size, [4 // size] * size)
    same(output, torch.full((4,), total))
    if rank == 0:
        dist.send(pending(), 1)
    else:
        assert pending()[0] == total
        dist.recv(output, 0)
    whole = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (size,)), [Shard(0)])
    for other, text in ((whole, "DTensor on cpu"), (torch.ones(3, device="meta"), "Tensor on meta")):
        with raises(TypeError, text + " has no memory of its own"):
            dist.all_reduce(other)
    dist.all_reduce(whole.to_local())
    same(whole.full_tensor(), torch.full((4, 2), float(size)))
    dist.destroy_process_group()


def functions():
    """Collectives in a function, as it is and compiled."""
    rank, size = start()

    def function(x):
        total = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        every = functional.all_gather_tensor(total + 1, 0, dist.group.WORLD)
        part = functional.reduce_scatter_tensor(every, "sum", 0, dist.group.WORLD)
        dist.all_reduce(part)
        return part * 2

    x = torch.full((4,), rank + 1.0)
    wanted = (size * (size + 1) + 1.0) * 2 * size * size
    for run in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        same(run(x.clone()) + 0, torch.full((4,), wanted))
    dist.destroy_process_group()


def data_parallel():
    """A compiled model, which calls the process group between its compiled parts, also for different numbers of batches."""
    rank, size = start()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)))
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        compiled(torch.randn(4, 8)).pow(2).sum().backward()
    gradient = model.module[0].weight.grad
    every = [torch.zeros_like(gradient) for _ in range(size)]
    dist.all_gather(every, gradient)
    for other in every:
        same(gradient, other)
    with model.join():
        for _ in range(2 + rank):
            model(torch.randn(4, 8)).pow(2).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    for check in sys.argv[1:]:
        globals()[check]()
        print(f"passed: {check}", flush=True)
