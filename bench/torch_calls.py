# SPDX-License-Identifier: BSD-3-Clause
# Operations of torch.distributed by several backends, by turns in one process: each operation with a synchronization,
# operations back to back, the host alone, a CUDA graph of matrix products and all-reduces as in tensor-parallel
# inference, and a step of DistributedDataParallel. `fake`, torch's process group that does nothing, is the floor.
# Rank 0 prints JSON: microseconds of the slowest rank, medians of the rounds.
# Usage: torchrun --nproc-per-node N torch_calls.py [--backends weft,nccl,fake] [--device cuda] [--rounds 5]
import argparse
import json
import os
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

FLOAT_BYTES = 4
SECONDS_PER_ROUND = 0.03  # of one backend and row
LAYERS, WIDTH, TOKENS = 10, 1024, 8  # of the graph: two all-reduces of TOKENS x WIDTH floats a layer
BUCKETS, BUCKET_BYTES = 24, 4 << 20


class Groups:
    """A process group for each backend, all of the same processes."""

    def __init__(self, backends, device):
        if "weft" in backends and not hasattr(dist.Backend, "WEFT"):
            import weft_mpi.torch  # noqa: F401
        if "fake" in backends:
            import torch.testing._internal.distributed.fake_pg  # noqa: F401
        dist.init_process_group(backends[0], timeout=timedelta(seconds=60))
        self.names, self.device = backends, device
        self.by_name = {
            name: dist.new_group(backend=name) if i else dist.group.WORLD for i, name in enumerate(backends)
        }
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def slowest(self, value):
        """Returns the largest value of all ranks."""
        values = [None] * self.size
        dist.all_gather_object(values, value)
        return max(values)


def timed(groups, call, group, count, each):
    """Returns microseconds a call; each: with a synchronization after each one, else after all."""
    groups.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call(group)
        if each:
            groups.synchronize()
    groups.synchronize()
    return (time.perf_counter() - begin) / count * 1e6


def compare(groups, call, options, each=True, measure=timed):
    """Returns the median of each backend's rounds, of the slowest rank."""
    found = {name: [] for name in groups.names}
    counts = {}
    for name, group in groups.by_name.items():
        measure(groups, call, group, 5, each)
        own = SECONDS_PER_ROUND * 1e6 / max(groups.slowest(measure(groups, call, group, 5, each)), 1)
        counts[name] = min(max(int(own), 5), 500)
    for _ in range(options.rounds):
        for name, group in groups.by_name.items():
            dist.barrier()
            found[name].append(measure(groups, call, group, counts[name], each))
    return {name: round(groups.slowest(statistics.median(times)), 2) for name, times in found.items()}


def issued(groups, call, group, count, _each):
    """Returns microseconds of the host alone."""
    groups.synchronize()
    spent = 0.0
    for i in range(count):
        begin = time.perf_counter()
        call(group)
        spent += time.perf_counter() - begin
        if i % 8 == 7:
            groups.synchronize()
    groups.synchronize()
    return spent / count * 1e6


def operations(groups, size):
    """Returns functions of a group for each name, on `size` bytes a rank."""
    count = max(size // FLOAT_BYTES, groups.size)
    count -= count % groups.size
    make = lambda elements: torch.zeros(elements, device=groups.device)  # noqa: E731
    tensor, whole, part = make(count), make(count), make(count // groups.size)
    return {
        "all_reduce": lambda group: dist.all_reduce(tensor, group=group),
        "all_gather": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(tensor, whole, group=group),
    }


def collectives(groups, options):
    rows = {}
    for size in options.sizes:
        for name, call in operations(groups, size).items():
            rows[f"{name} {size} B, synchronized"] = compare(groups, call, options)
            if name == "all_reduce":
                rows[f"{name} {size} B, back to back"] = compare(groups, call, options, each=False)
    small = operations(groups, 8)
    asynchronous = torch.zeros(2, device=groups.device)
    small["all_reduce async"] = lambda group: dist.all_reduce(asynchronous, group=group, async_op=True)
    for name, call in small.items():
        rows[f"issue {name}"] = compare(groups, call, options, measure=issued)
    return rows


def graph(groups, options):
    """Returns microseconds of a launch of each backend's graph, and of one without all-reduces; whether results are equal bits in
    each launch."""
    torch.manual_seed(5)
    weights = [torch.randn(WIDTH, WIDTH, device=groups.device) / WIDTH for _ in range(2 * LAYERS)]
    start, x = torch.randn(TOKENS, WIDTH, device=groups.device), torch.empty(TOKENS, WIDTH, device=groups.device)

    def run(group):
        x.copy_(start)
        for weight in weights:
            y = x @ weight
            if group is not None:
                dist.all_reduce(y, group=group)
            x.copy_(y)

    launches, results, equal = {}, {}, True
    for name, group in {"none": None, **groups.by_name}.items():
        for _ in range(3):
            run(group)
        groups.synchronize()
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made, capture_error_mode="thread_local"):
            run(group)
        launches[name], bits = made, []
        for _ in range(5):
            made.replay()
            groups.synchronize()
            bits.append(x.clone())
        equal = equal and all(torch.equal(bits[0], other) for other in bits)
        results[name] = bits[0]
    times = {name: [] for name in launches}
    for _ in range(options.rounds):
        for name, made in launches.items():
            dist.barrier()
            groups.synchronize()
            times[name].append(timed(groups, lambda _, one=made: one.replay(), None, 50, each=False))
    row = {name: round(groups.slowest(statistics.median(found)), 2) for name, found in times.items()}
    if {"weft", "nccl"} <= row.keys():
        row["communication, weft / nccl"] = round((row["weft"] - row["none"]) / (row["nccl"] - row["none"]), 3)
        row["largest difference of results"] = float((results["weft"] - results["nccl"]).abs().max())
    return {f"graph of {2 * LAYERS} all-reduces of {FLOAT_BYTES * TOKENS * WIDTH} B": {**row, "equal bits": equal}}


def training(groups, options):
    """Returns microseconds of a step of DistributedDataParallel."""
    width = int((BUCKET_BYTES / FLOAT_BYTES) ** 0.5)
    data = torch.randn(64, width, device=groups.device)
    steps = {}
    for name, group in groups.by_name.items():
        if name == "fake":
            continue
        torch.manual_seed(3)
        layers = [torch.nn.Linear(width, width, bias=False) for _ in range(BUCKETS)]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(groups.device), process_group=group,
                                                          bucket_cap_mb=BUCKET_BYTES / (1 << 20))  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

        def step(_group, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

        steps[name] = step
        for _ in range(5):
            step(None)
    times = {name: [] for name in steps}
    for _ in range(options.rounds):
        for name, step in steps.items():
            dist.barrier()
            times[name].append(timed(groups, step, None, options.steps, each=True))
    found = {name: round(groups.slowest(statistics.median(those)), 1) for name, those in times.items()}
    return {f"DDP step, {BUCKETS} buckets of {BUCKET_BYTES} B": found}


def main():
    parser = argparse.ArgumentParser(description="Operations of torch.distributed by several backends, by turns.")
    parser.add_argument("--backends", default="weft,nccl,fake", help="the first is that of the default group")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps of training in a round")
    parser.add_argument("--sizes", default="8,65536,1048576,16777216,268435456", help="bytes")
    options = parser.parse_args()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    groups = Groups(options.backends.split(","), device)
    rows = collectives(groups, options)
    if device.type == "cuda":
        rows.update(graph(groups, options))
    rows.update(training(groups, options))
    if groups.rank == 0:
        print(
            json.dumps({"torch version": torch.__version__, "unit": "us", "ranks": groups.size, "rows": rows}, indent=1)
        )
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
