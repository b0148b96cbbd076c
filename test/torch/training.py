#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Trains a small model in parallel, in four ways, and compares the losses with those of one process. Run by torchrun.
# usage: training.py BACKEND WAY ...; environment: TEST_DEVICE=cuda for training on GPUs
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh

STEPS, BATCH, WIDTH = 5, 8, 16
DEVICE = os.environ.get("TEST_DEVICE", "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def model():
    torch.manual_seed(7)
    return nn.Sequential(Block(), Block(), Block(), Block())


def batches():
    torch.manual_seed(11)
    return [(torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)) for _ in range(STEPS)]


def train(net, data):
    """Returns the loss of each step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for x, y in data:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def own(data):
    """Returns the part of each batch that belongs to this process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    return [(x.chunk(size)[rank], y.chunk(size)[rank]) for x, y in data]


def mean(losses):
    dist.all_reduce(losses)
    return losses / dist.get_world_size()


def data_parallel():
    return mean(train(nn.parallel.DistributedDataParallel(model()), own(batches())))


def fully_sharded():
    from torch.distributed.fsdp import fully_shard

    net, mesh = model(), init_device_mesh(DEVICE, (dist.get_world_size(),))
    for block in net:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return mean(train(net, own(batches())))


def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    net = model()
    for block in net:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return train(net, batches())


def pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, size = dist.get_rank(), dist.get_world_size()
    blocks = list(model())
    share = len(blocks) // size
    part = nn.Sequential(*blocks[rank * share : (rank + 1) * share])
    stage = PipelineStage(part, rank, size, torch.get_default_device())
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    losses = torch.zeros(STEPS)
    for step, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        found = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=y, losses=found)
            losses[step] = torch.stack(found).mean()
        else:
            schedule.step()
        optimizer.step()
    dist.broadcast(losses, size - 1)
    return losses


def main():
    backend, *ways = sys.argv[1:]
    if backend == "weft":
        import weft_mpi.torch  # noqa: F401
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.set_default_device(torch.device("cuda", torch.cuda.current_device()))
        torch.backends.cuda.matmul.allow_tf32 = False
    expected = train(model(), batches())
    for way in ways:
        dist.init_process_group(backend)
        losses = globals()[way]()
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
        if dist.get_rank() == 0:
            print(way, "as on one process", flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
