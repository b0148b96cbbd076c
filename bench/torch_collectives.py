#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares torch.distributed between the backends weft and nccl, and torch's fake process group, which does nothing: calls
# that are each followed by a synchronisation of the GPU, calls in a graph, the time of issuing alone, a step of
# DistributedDataParallel. Medians of alternating rounds, a job for each backend. --memory H: weft beside gloo.
import argparse
import json
import os
import statistics
import sys
import time

import comparison
from peer_programs import NVLS, Failure, Job, execute

WEFT, FAKE = "Weft", "no communication"
BACKENDS = {"D": {WEFT: "weft", "NCCL": "nccl", FAKE: "fake"}, "H": {WEFT: "weft", "gloo": "gloo", FAKE: "fake"}}
SIZES = (8, 64 << 10, 1 << 20, 16 << 20, 256 << 20)  # bytes of all_reduce
MOVED = (8, 1 << 20, 16 << 20)  # bytes that a rank gives in the others
LARGE = 16 << 20
CALLS, LARGE_CALLS, WARM_UP = 300, 30, 10
ISSUED = 20  # calls without a synchronisation between them: a queue of launches never fills
GRAPH_CALLS, GRAPH_BYTES = 20, 32 << 10
LAYERS, WIDTH = 24, 1000  # a step of DistributedDataParallel: 24 buckets of 4 MB


def words_of(size):
    return "%d MiB" % (size >> 20) if size >= 1 << 20 else "%d KiB" % (size >> 10) if size >= 1024 else "%d B" % size


class Site:
    """A process group in one process of a job. `small`: few calls of small messages."""

    def __init__(self, backend, cuda, small):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.backend, self.small = torch, dist, backend, small
        rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if backend == "fake":
            from torch.testing._internal.distributed.fake_pg import FakeStore

            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=int(os.environ["BENCH_RANKS"]))
        else:
            if backend == "weft":
                import weft_mpi.torch  # noqa: F401
            dist.init_process_group(backend, device_id=self.device if backend == "nccl" else None)
        assert backend == "fake" or dist.get_world_size() == ranks, (dist.get_world_size(), ranks)
        self.rank, self.ranks = rank, dist.get_world_size()

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def start_together(self):
        if self.backend != "fake":
            self.dist.barrier()
        self.synchronize()

    def floats(self, size):
        return self.torch.ones(max(1, size // 4), device=self.device)

    def timed(self, call, calls):
        """Returns the mean in microseconds of calls that are each followed by a synchronisation."""
        calls = 2 if self.small else calls
        for _ in range(2 if self.small else WARM_UP):
            call()
            self.synchronize()
        self.start_together()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
            self.synchronize()
        return (time.perf_counter() - begin) / calls * 1e6

    def issuing(self, call):
        """Returns the mean in microseconds of calls alone; the GPU ends them between the measured parts."""
        parts = []
        for _ in range(2 if self.small else 20):
            self.start_together()
            begin = time.perf_counter()
            for _ in range(ISSUED):
                call()
            parts.append((time.perf_counter() - begin) / ISSUED * 1e6)
            self.synchronize()
        return statistics.median(parts)


def reductions(site):
    figures = {}
    for size in SIZES[:3] if site.small else SIZES:
        tensor = site.floats(size).zero_()  # sums stay finite
        calls = LARGE_CALLS if size >= LARGE else CALLS
        figures["all_reduce " + words_of(size)] = site.timed(lambda tensor=tensor: site.dist.all_reduce(tensor), calls)
    tensor = site.floats(8).zero_()
    figures["issuing all_reduce 8 B"] = site.issuing(lambda: site.dist.all_reduce(tensor))
    return figures


def movements(site):
    figures = {}
    for size in MOVED[:1] if site.small else MOVED:
        calls = LARGE_CALLS if size >= LARGE else CALLS
        one = site.floats(size)
        all_ = site.torch.ones(one.numel() * site.ranks, device=site.device)
        other = site.torch.empty_like(all_)
        for name, call in (
            ("all_gather", lambda: site.dist.all_gather_into_tensor(all_, one)),  # noqa: B023
            ("reduce_scatter", lambda: site.dist.reduce_scatter_tensor(one, all_)),  # noqa: B023
            ("all_to_all", lambda: site.dist.all_to_all_single(other, all_)),  # noqa: B023
        ):
            if site.backend != "gloo" or name == "all_gather":
                figures[name + " " + words_of(size)] = site.timed(call, calls)
    return figures


def graph(site):
    """Returns the time of a replayed graph of calls."""
    if site.device.type != "cuda" or site.backend == "fake":
        return {}
    tensor = site.floats(GRAPH_BYTES).zero_()
    site.dist.all_reduce(tensor)  # before a capture each kind of call must have run
    site.synchronize()
    captured = site.torch.cuda.CUDAGraph()
    with site.torch.cuda.graph(captured, capture_error_mode="thread_local"):
        for _ in range(GRAPH_CALLS):
            site.dist.all_reduce(tensor)
    return {"%d all_reduce of 32 KiB in a graph" % GRAPH_CALLS: site.timed(captured.replay, CALLS)}


def training(site):
    """Returns the time of a step of DistributedDataParallel, one bucket for each layer."""
    if site.backend == "fake":
        return {}
    width = 16 if site.small else WIDTH
    layers = [site.torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)]
    model = site.torch.nn.Sequential(*layers).to(site.device)
    ids = [site.device.index] if site.device.type == "cuda" else None
    parallel = site.torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=width * width * 4e-6)
    data = site.torch.randn(64, width, device=site.device)

    def step():
        model.zero_grad()
        parallel(data).square().mean().backward()

    return {"step of DistributedDataParallel": site.timed(step, LARGE_CALLS)}


PARTS = (reductions, movements, graph, training)


def measure(backend, cuda, small):
    """Measures in each process of a job; rank 0 prints the figures and facts as JSON."""
    site = Site(backend, cuda, small)
    figures = {}
    for part in PARTS:
        figures.update(part(site))
    site.dist.destroy_process_group()
    facts = {"torch": site.torch.__version__}
    if cuda:
        facts.update(device=site.torch.cuda.get_device_name(), devices=site.torch.cuda.device_count(),
                     driver=site.torch.version.cuda, nccl=".".join(map(str, site.torch.cuda.nccl.version())))  # fmt: skip
    if site.rank == 0:
        print(json.dumps({"figures": figures, "facts": facts}), flush=True)


class Backend:
    """A backend as comparison.Rounds takes it: a job of the one name measures all points."""

    jobs = ("torch",)

    def __init__(self, name, word, chosen):
        self.name, self.word, self.chosen = name, word, chosen
        self.facts = {}

    def measure(self, _, ranks, memory, seconds):
        python = os.path.join(self.chosen.weft, "share", "weft", "python")
        path = os.pathsep.join(filter(None, (python, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, **NVLS, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "BENCH_RANKS": str(ranks)}
        measured = [os.path.abspath(__file__), "--measure", self.word, "--memory", memory]
        measured += ["--trial"] if self.chosen.trial else []
        job = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        run = [] if self.word == "fake" else job
        out = execute([self.chosen.python, *run, *measured], environment, seconds)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if not lines:
            raise Failure("it printed no figures")
        found = json.loads(lines[-1])
        self.facts = {"library": f"torch {found['facts']['torch']}, {self.word}", **found["facts"]}
        return found["figures"]


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
    comparison.add_options(parser, seconds=240, limit=100)
    parser.add_argument("--python", default=sys.executable, help="a Python with torch (this one)")
    parser.add_argument("--trial", action="store_true", help="few calls of small messages")
    parser.add_argument("--measure", metavar="BACKEND", help=argparse.SUPPRESS)  # in the processes of a job
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    return chosen


def main():
    begin = time.monotonic()
    chosen = arguments()
    if chosen.measure:
        measure(chosen.measure, chosen.memory == "D", chosen.trial)
        return 0
    _, ranks = comparison.count_ranks(chosen)
    if ranks < 2:
        print("torch_collectives: %d ranks: at least 2 are needed" % ranks, file=sys.stderr)
        return 2
    backends = [Backend(name, word, chosen) for name, word in BACKENDS[chosen.memory].items()]
    rounds = comparison.Rounds(backends, ranks, chosen.memory, begin + chosen.seconds, chosen.limit)
    number = rounds.run([Job("torch", "", 0, "0", (), "us")], chosen.rounds)
    facts = {**comparison.facts_of(chosen, backends, rounds, number, {}), "nvls": "off",
             "nccl": backends[0].facts.get("nccl"), "torch": backends[0].facts.get("torch")}  # fmt: skip
    other = backends[1].name
    rows = rows_of(rounds.figures, other)
    comparison.show_libraries(backends, facts)
    for row in rows:
        cells = "".join("%16s" % comparison.shown(row["figures"].get(one.name)) for one in backends)
        print("%-40s%s%8s" % (row["point"], cells, row.get("ratio", "-")))
    return comparison.write(chosen, "torch", {**facts, "rows": rows, "figures": rounds.figures})


if __name__ == "__main__":
    sys.exit(main())
