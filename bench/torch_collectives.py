#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares torch.distributed between the backends weft and nccl, and torch's fake process group, which does nothing, by turns in
# the same processes: operations that are each followed by a synchronisation of the GPU, operations back to back, the time of
# issuing alone, all-reduces among products of matrices in a CUDA graph as in tensor-parallel inference, a step of
# DistributedDataParallel. --memory H: weft beside gloo.
import argparse
import json
import os
import statistics
import sys
import time
import types

import comparison
from peer_programs import NVLS, Failure, execute

WEFT, FAKE = "Weft", "no communication"
BACKENDS = {"D": {WEFT: "weft", "NCCL": "nccl", FAKE: "fake"}, "H": {WEFT: "weft", "gloo": "gloo", FAKE: "fake"}}
SIZES = (8, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 256 << 20)  # bytes of a rank in all_reduce
MOVED = (8, 64 << 10, 1 << 20, 16 << 20)  # bytes of the larger tensor in the others
SECONDS_PER_ROUND = 0.03  # of one backend and point
CALLS = (5, 500)  # in a round, at least and at most
UNSYNCHRONIZED = 8  # calls between synchronisations while only issuing is timed: a queue of launches never fills
LAYERS, WIDTH, TOKENS = 10, 1024, 8  # of the graph: two all-reduces of TOKENS x WIDTH floats in a layer
REPLAYS = 5  # whose results must be equal bits
BUCKETS, STEPS, WARM_UP = 24, 20, 5  # of DistributedDataParallel, a bucket for each layer of WIDTH x WIDTH floats
FLOAT_BYTES = 4


def words_of(size):
    return "%d MiB" % (size >> 20) if size >= 1 << 20 else "%d KiB" % (size >> 10) if size >= 1024 else "%d B" % size


class Groups:
    """A process group for each backend, all of the same processes; the backend of the default group is weft."""

    def __init__(self, memory, small):
        import torch
        import torch.distributed as dist
        import torch.testing._internal.distributed.fake_pg  # noqa: F401
        import weft_mpi.torch  # noqa: F401

        self.torch, self.dist, self.small = torch, dist, small
        self.cuda = memory == "D"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        dist.init_process_group("weft")
        self.by_name = {
            name: dist.group.WORLD if name == WEFT else dist.new_group(backend=word)
            for name, word in BACKENDS[memory].items()
        }
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def synchronize(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def slowest(self, values):
        """Returns the largest of all ranks' values, item by item."""
        found = [None] * self.ranks
        self.dist.all_gather_object(found, values)
        return [max(same) for same in zip(*found)]


def back_to_back(groups, call, count):
    """Returns microseconds of a call among others, with one synchronisation at the end."""
    groups.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    groups.synchronize()
    return (time.perf_counter() - begin) / count * 1e6


def synchronized(groups, call, count):
    """Returns microseconds of a call with the synchronisation that follows it."""

    def both():
        call()
        groups.synchronize()

    return back_to_back(groups, both, count)


def issued(groups, call, count):
    """Returns microseconds of the host alone."""
    groups.synchronize()
    spent = 0.0
    for i in range(count):
        begin = time.perf_counter()
        call()
        spent += time.perf_counter() - begin
        if i % UNSYNCHRONIZED == UNSYNCHRONIZED - 1:
            groups.synchronize()
    groups.synchronize()
    return spent / count * 1e6


class Points:
    """Measures by turns; holds {backend: {point: [microseconds of the slowest rank, one for each round]}}."""

    def __init__(self, groups, rounds):
        self.groups, self.rounds = groups, rounds
        self.figures = {name: {} for name in groups.by_name}

    def count_of(self, call, measure):
        """Returns the number of calls in a round, which is the same on all ranks."""
        if self.groups.small:
            return 2
        measure(self.groups, call, CALLS[0])
        (each,) = self.groups.slowest([measure(self.groups, call, CALLS[0])])
        return min(max(int(SECONDS_PER_ROUND * 1e6 / each), CALLS[0]), CALLS[1])

    def turns(self, calls, measure, count=None):
        """Returns {name: times of the rounds} of functions without arguments; count: of calls in a round."""
        counts = {name: count or self.count_of(call, measure) for name, call in calls.items()}
        times = {name: [] for name in calls}
        for _ in range(self.rounds):
            for name, call in calls.items():
                self.groups.dist.barrier()
                times[name].append(measure(self.groups, call, counts[name]))
        return {name: self.groups.slowest(found) for name, found in times.items()}

    def add(self, point, times):
        for name, found in times.items():
            self.figures[name][point] = found

    def measure(self, point, call, measure):
        """Adds a point of all backends. call: a function of a process group."""
        calls = {name: lambda group=group: call(group) for name, group in self.groups.by_name.items()}
        self.add(point, self.turns(calls, measure))


def operations(groups, size):
    """Returns functions of a process group, on `size` bytes of a rank."""
    count = max(size // FLOAT_BYTES, groups.ranks)
    count -= count % groups.ranks
    dist, make = groups.dist, lambda elements: groups.torch.zeros(elements, device=groups.device)
    tensor, whole, part = make(count), make(count), make(count // groups.ranks)
    return {
        "all_reduce": lambda group: dist.all_reduce(tensor, group=group),
        "all_gather": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(tensor, whole, group=group),
    }


def collectives(points):
    for size in SIZES[:2] if points.groups.small else SIZES:
        for name, call in operations(points.groups, size).items():
            if name == "all_reduce" or size in MOVED:
                points.measure(f"{name} {words_of(size)}", call, synchronized)
            if name == "all_reduce":
                points.measure(f"{name} {words_of(size)}, back to back", call, back_to_back)


def issuing(points):
    groups = points.groups
    tensor = groups.torch.zeros(2, device=groups.device)
    for name, call in operations(groups, 8).items():
        points.measure(f"issuing {name} 8 B", call, issued)
    points.measure("issuing all_reduce 8 B, asynchronous",
                   lambda group: groups.dist.all_reduce(tensor, group=group, async_op=True), issued)  # fmt: skip


def graph(points):
    """Adds the time of the all-reduces in a graph: of its launch, less that of the same graph without them."""
    groups = points.groups
    torch, device = groups.torch, groups.device
    if not groups.cuda:
        return
    torch.manual_seed(5)
    scale = groups.ranks * WIDTH**0.5  # each layer keeps the size of its input, so that differences show
    weights = [torch.randn(WIDTH, WIDTH, device=device) / scale for _ in range(2 * LAYERS)]
    start, x = torch.randn(TOKENS, WIDTH, device=device), torch.empty(TOKENS, WIDTH, device=device)

    def run(group):
        x.copy_(start)
        for weight in weights:
            y = x @ weight
            if group is not None:
                groups.dist.all_reduce(y, group=group)
            x.copy_(y)

    launches, results = {}, {}
    for name, group in {**groups.by_name, FAKE: None}.items():
        for _ in range(3):  # before a capture each kind of call must have run
            run(group)
        groups.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            run(group)
        launches[name], results[name] = captured.replay, []
        for _ in range(REPLAYS):
            captured.replay()
            groups.synchronize()
            results[name].append(x.clone())
    first, *others = results[WEFT]
    if not all(torch.equal(first, other) for other in others):
        raise RuntimeError("launches of one graph have different results")
    torch.testing.assert_close(first, results["NCCL"][0], rtol=1e-3, atol=1e-3)
    times = points.turns(launches, back_to_back)
    point = f"{2 * LAYERS} all_reduces of {words_of(FLOAT_BYTES * TOKENS * WIDTH)} in a graph"
    products = times.pop(FAKE)
    points.add(point, {name: [a - b for a, b in zip(found, products)] for name, found in times.items()})


def training(points):
    """Adds a step of DistributedDataParallel; without communication: in no_sync()."""
    groups = points.groups
    torch, parallel = groups.torch, groups.torch.nn.parallel.DistributedDataParallel
    width = 16 if groups.small else WIDTH
    data, steps = torch.randn(64, width, device=groups.device), {}

    def step(model, optimizer):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    def step_alone(model, optimizer):
        with model.no_sync():
            step(model, optimizer)

    for name, group in groups.by_name.items():
        torch.manual_seed(3)
        layers = [torch.nn.Linear(width, width, bias=False) for _ in range(BUCKETS)]
        model = torch.nn.Sequential(*layers).to(groups.device)
        process_group = groups.by_name[WEFT] if name == FAKE else group
        model = parallel(model, process_group=process_group, bucket_cap_mb=FLOAT_BYTES * width * width / (1 << 20))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        call = step_alone if name == FAKE else step
        steps[name] = lambda call=call, model=model, optimizer=optimizer: call(model, optimizer)
        for _ in range(WARM_UP):  # DistributedDataParallel makes its buckets anew after the first step
            steps[name]()
    points.add("step of DistributedDataParallel", points.turns(steps, synchronized, 1 if groups.small else STEPS))


PARTS = (collectives, issuing, graph, training)


def measure(memory, rounds, small):
    """Measures in each process of the job; rank 0 prints the figures and facts as JSON."""
    groups = Groups(memory, small)
    points = Points(groups, rounds)
    for part in PARTS:
        part(points)
    torch = groups.torch
    facts = {"torch": torch.__version__}
    if groups.cuda:
        facts.update(device=torch.cuda.get_device_name(), devices=torch.cuda.device_count(),
                     driver=torch.version.cuda, nccl=".".join(map(str, torch.cuda.nccl.version())))  # fmt: skip
    if groups.rank == 0:
        print(json.dumps({"figures": points.figures, "facts": facts}), flush=True)
    groups.dist.destroy_process_group()


def run_job(chosen, ranks, rounds):
    """Returns figures and facts of a job with all backends."""
    python = os.path.join(chosen.weft, "share", "weft", "python")
    path = os.pathsep.join(filter(None, (python, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **NVLS, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    measured = [os.path.abspath(__file__), "--measure", "--memory", chosen.memory, "--rounds", str(rounds)]
    measured += ["--trial"] if chosen.trial else []
    job = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]
    out = execute([chosen.python, *job, *measured], environment, min(chosen.seconds, chosen.limit))
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise Failure("it printed no figures")
    found = json.loads(lines[-1])
    return found["figures"], found["facts"]


def rows_of(figures, other):
    """Returns a row for each point: medians, and Weft's ratio to the other backend."""
    rows = []
    for point in figures[WEFT]:
        values = {name: statistics.median(points[point]) for name, points in figures.items() if points.get(point)}
        row = {"point": point, "unit": "us", "figures": values}
        if other in values:
            row["ratio"] = round(values[WEFT] / values[other], 3)
        rows.append(row)
    return rows


def arguments():
    parser = argparse.ArgumentParser(description="Compares torch.distributed between backends.")
    comparison.add_options(parser, seconds=240, limit=240)
    parser.add_argument("--python", default=sys.executable, help="a Python with torch (this one)")
    parser.add_argument("--trial", action="store_true", help="few calls of small messages")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)  # in the processes of the job
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    return chosen


def main():
    chosen = arguments()
    if chosen.measure:
        measure(chosen.memory, chosen.rounds, chosen.trial)
        return 0
    _, ranks = comparison.count_ranks(chosen)
    if ranks < 2:
        print("torch_collectives: %d ranks: at least 2 are needed" % ranks, file=sys.stderr)
        return 2
    rounds = 1 if chosen.trial else chosen.rounds
    try:
        figures, found = run_job(chosen, ranks, rounds)
    except Failure as failure:
        print(f"torch_collectives: {failure}", file=sys.stderr)
        return 1
    backends = [
        types.SimpleNamespace(name=name, facts={"library": f"torch {found['torch']}, {word}", **found})
        for name, word in BACKENDS[chosen.memory].items()
    ]
    what = types.SimpleNamespace(gpus=ranks, failures={})
    facts = {**comparison.facts_of(chosen, backends, what, rounds, {}), "nvls": "off", "nccl": found.get("nccl"),
             "torch": found["torch"]}  # fmt: skip
    rows = rows_of(figures, backends[1].name)
    comparison.show_libraries(backends, facts)
    for row in rows:
        cells = "".join("%16s" % comparison.shown(row["figures"].get(one.name)) for one in backends)
        print("%-40s%s%8s" % (row["point"], cells, row.get("ratio", "-")))
    return comparison.write(chosen, "torch", {**facts, "rows": rows, "figures": figures})


if __name__ == "__main__":
    sys.exit(main())
