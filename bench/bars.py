#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Measures Weft alone on GPUs and compares each figure with its required figure ("bar"): host and device, lone,
# persistent and enqueued calls, strided messages, memory kinds, Jacobi, slowdown of a program's own kernels. Exit
# status 1: a measurement failed; missed bars are printed. peers.py compares with other libraries.
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import comparison
from peer_programs import BENCH, ROOT, Failure, Job, execute, weft_peer

# Required figures on H200: name -> (figure, whether higher is better, unit).
BARS = {
    "8 B host to device": (5, False, "us"), "8 B device to host": (5, False, "us"),
    "8 B host to device, lone": (9, False, "us"), "8 B device to host, lone": (9, False, "us"),
    "persistent allreduce 8 B": (5.5, False, "us"), "barrier": (1.5, False, "us"),
    "lone allreduce 8 B": (13, False, "us"), "lone alltoall 8 B": (13, False, "us"),
    "lone allgather 8 B": (13, False, "us"), "lone bcast 8 B": (13, False, "us"),
    "lone reduce_scatter_block 8 B": (13, False, "us"),
    "enqueued send and receive 8 B": (7, False, "us"), "the same in a graph": (5, False, "us"),
    "enqueued allreduce 8 B": (8, False, "us"), "that in a graph": (8, False, "us"),
    "MPI_Pack of 1 GiB over a copy": (0.85, True, "ratio"), "column over 64 KiB": (2.5, False, "ratio"),
    "x face over contiguous": (0.5, True, "ratio"), "y face over contiguous": (0.7, True, "ratio"),
    "z face over contiguous": (0.7, True, "ratio"), "six faces over contiguous": (0.7, True, "ratio"),
    "Jacobi 16384 x 128 on 2": (0.42, False, "s"), "Jacobi 16384 x 128, kernel on over off": (1.0, False, "ratio"),
    "Jacobi 16384 x 32768 on 4": (0.97, True, "ratio"), "Jacobi 16384 x 32768 on 8": (0.95, True, "ratio"),
    "4 MiB, cuMemMap over plain": (1.1, False, "ratio"), "4 MiB, pool over plain": (1.35, False, "ratio"),
    "8 B of the host, CUDA on": (0.15, False, "us more"), "GPU memory beside buffers": (32, False, "MiB"),
    "a program's kernel beside messages": (1.0, False, "percent lost"),
    "cuCtxSynchronize after a message": (15, False, "us more"),
}  # fmt: skip
LONE = ("allreduce", "alltoall", "allgather", "bcast", "reduce_scatter_block")
HALO = {
    "pack 1 GiB, blocks of 8 B, stride 16 B": "MPI_Pack of 1 GiB over a copy",
    "column of 4 B blocks, stride 64 KiB": "column over 64 KiB", "x face": "x face over contiguous",
    "y face": "y face over contiguous", "z face of a cube of doubles": "z face over contiguous",
    "six faces of a cube": "six faces over contiguous",
}  # fmt: skip


class Site:
    """Weft's programs on this machine. `trial`: small and short runs, without bars."""

    def __init__(self, prefix, ranks, limit, trial):
        self.prefix, self.ranks, self.limit, self.trial = prefix, ranks, limit, trial
        self.facts = {}
        self.details = {}  # full JSON output of the programs

    def program(self, ranks, name, words, settings=()):
        """Returns the standard output of a program of libexec/weft, or of another with an absolute name."""
        path = os.path.join(self.prefix, "libexec", "weft", name)
        command = [os.path.join(self.prefix, "bin", "mpiexec"), "-n", str(ranks), path, *map(str, words)]
        return execute(command, {**os.environ, **dict(settings)}, self.limit)

    def report(self, name):
        """Returns the JSON output (-j) of a program of two ranks, and keeps it in the details."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            self.program(2, "bench/" + name, (*(["-s"] if self.trial else []), "-j", file.name))
            with open(file.name, encoding="utf-8") as text:
                self.details[name] = json.load(text)
        return self.details[name]

    def point(self, name, program, ranks=2, size="8", options=(), memory="D", settings=(), field="latency_us"):
        """Returns {name: figure} of one size, in us by default, measured by a program of the Ohio State set."""
        few = ("-i", "5", "-x", "1") if self.trial else ()
        peer = weft_peer("Weft", self.prefix, settings)
        job = Job("point", program, ranks, size, (*few, *options), field)
        figures = peer.measure(job, self.ranks, memory, self.limit)
        self.facts.update({key: value for key, value in peer.facts.items() if key != "devices"})
        return {name: next(iter(figures.values()))}


def host_and_device(site):
    figures = {}
    for ending, settings in (("", {}), (", lone", {"WEFT_GPU_RESIDENT_KERNEL": "off"})):
        for name, kinds in (("8 B host to device", ("H", "D")), ("8 B device to host", ("D", "H"))):
            figures.update(site.point(name + ending, "latency", options=kinds, memory="", settings=settings))
    return figures


def calls(site):
    figures = site.point("persistent allreduce 8 B", "allreduce_persistent", ranks=site.ranks)
    for name in LONE:
        settings = {"WEFT_GPU_RESIDENT_KERNEL": "off"}
        figures.update(site.point(f"lone {name} 8 B", name, ranks=site.ranks, settings=settings))
    if len(os.sched_getaffinity(0)) >= site.ranks:  # the bar assumes one core per rank
        figures.update(site.point("barrier", "barrier", ranks=site.ranks, size="0", memory=""))
    return figures


def enqueued(site):
    figures = {}
    iterations = 20 if site.trial else 2000
    for ranks, names, words in (
        (2, ("enqueued send and receive 8 B", "the same in a graph"), ()),
        (site.ranks, ("enqueued allreduce 8 B", "that in a graph"), ("collectives",)),
    ):
        out = site.program(ranks, "bench/enqueue", (8, iterations, *words))
        row = next((line.split() for line in out.splitlines() if line.split()[:1] == ["8"]), None)
        if row is None:
            raise Failure("enqueue printed no row of 8 bytes")
        figures.update(zip(names, (float(row[1]), float(row[4]))))
    return figures


def strided(site):
    rows = {row["work"]: row["of_reference"] for row in site.report("halo")}
    figures = {name: rows[work] for work, name in HALO.items()}
    figures["column over 64 KiB"] = 1 / figures["column over 64 KiB"]
    return figures


def memory(site):
    found = site.report("memory")
    plain = found["kinds_us"]["plain"]
    before, after = found["host_us"], found["host_with_cuda_us"]
    return {
        "4 MiB, cuMemMap over plain": found["kinds_us"]["mapped"] / plain,
        "4 MiB, pool over plain": found["kinds_us"]["pool"] / plain,
        "8 B of the host, CUDA on": max(after[place] - before[place] for place in before),
        "GPU memory beside buffers": found["extra_mib"],
    }


def solve(site, ranks, size, iterations, words, settings=()):
    """Returns the seconds, and the seconds on one device, of a Jacobi run."""
    if site.trial:
        size, iterations = (64, 64), 5
    options = ("-csv", "-nx", size[0], "-ny", size[1], "-niter", iterations, *words)
    cells = site.program(ranks, "jacobi", options, settings).strip().splitlines()[-1].split(",")
    return float(cells[-2]), float(cells[-1])


def jacobi_of_messages(site):
    """Solves a grid dominated by messages, with the better variant."""
    best = {}
    for resident_kernel in ("auto", "off"):
        settings = {"WEFT_GPU_RESIDENT_KERNEL": resident_kernel}
        times = []
        for variant in ("cuda_aware", "overlap"):
            words = ("-variant", variant, "-skip_single_gpu")
            times.append(solve(site, 2, (16384, 128), 10000, words, settings)[0])
        best[resident_kernel] = min(times)
    return {"Jacobi 16384 x 128 on 2": best["auto"],
            "Jacobi 16384 x 128, kernel on over off": best["auto"] / best["off"]}  # fmt: skip


def jacobi_of_work(site):
    seconds, alone = solve(site, site.ranks, (16384, 32768), 1000, ("-variant", "overlap"))
    return {"Jacobi 16384 x 32768 on %d" % site.ranks: alone / seconds / site.ranks}


def interference(site):
    found = site.report("interference")
    return {"a program's kernel beside messages": found["loss_percent"],
            "cuCtxSynchronize after a message": found["sync_after_message_us"] - found["sync_idle_us"]}  # fmt: skip


# Measured in every round, or once; long measurements come last, so that the time limit drops these first.
ROUNDS = {"host and device": host_and_device, "calls": calls, "enqueued": enqueued, "Jacobi": jacobi_of_messages}
ONCE = {"strided": strided, "memory": memory, "interference": interference, "large Jacobi": jacobi_of_work}


def measure(site, repeated, once, rounds, end):
    """Runs the measurements {name: function of the site}: those of `repeated` in rounds, then those of `once`.
    Returns ({name: [figures]}, {measurement: reason of its failure})."""
    figures, failures = {}, {}
    works = {**repeated, **once}
    plan = [*repeated] * rounds + [*once]
    for name in plan:
        if name in failures:
            continue
        if time.monotonic() > end:
            failures[name] = "no time left"
            continue
        try:
            for what, value in works[name](site).items():
                figures.setdefault(what, []).append(value)
        except Failure as failure:
            failures[name] = str(failure)
            print(f"{name}: left out: {failure}", file=sys.stderr, flush=True)
    return figures, failures


def evaluate(figures, bars, trial):
    """Returns one row per figure: its median, its bar, whether it is met. Trials have no bars."""
    rows = []
    for name, values in figures.items():
        row = {"name": name, "value": round(statistics.median(values), 4), "values": values}
        if name in bars and not trial:
            bar, higher, unit = bars[name]
            row.update(unit=unit, bar=bar, met=row["value"] >= bar if higher else row["value"] <= bar)
        rows.append(row)
    return rows


def show(rows, facts):
    print("%s GPUs, %s, driver %s, %s" % (facts["ranks"], facts["gpu"], facts["driver"], facts["date"]))
    for row in rows:
        bar = "bar %g %s" % (row["bar"], "met" if row["met"] else "MISSED") if "bar" in row else "no bar"
        print("%-42s%10s %-13s %s" % (row["name"], comparison.shown(row["value"]), row.get("unit", ""), bar))


def arguments(description, known, default_name):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--ranks", type=int, help="ranks of what all GPUs take part in (the number of GPUs)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the short measurements (3)")
    parser.add_argument("--seconds", type=float, default=400, help="time limit of all measurements (400)")
    parser.add_argument("--limit", type=float, default=60, help="time limit of one run, after which it is killed (60)")
    parser.add_argument("--only", metavar="WHAT,...", help="some of: " + ", ".join(known))
    parser.add_argument("--trial", action="store_true", help="small and short runs, without bars")
    parser.add_argument("--json", metavar="FILE", help=f"result file (bench/results/{default_name}-<GPUs>.json)")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    chosen.only = chosen.only.split(",") if chosen.only else list(known)
    if set(chosen.only) - set(known):
        parser.error("--only %s: no such measurement" % ",".join(sorted(set(chosen.only) - set(known))))
    return chosen


def run(description, name, repeated, once, bars, make=Site):
    """Measures as the command line says, prints the rows and writes them as JSON. Returns the exit status."""
    begin = time.monotonic()
    chosen = arguments(description, [*repeated, *once], name)
    gpus = comparison.count_gpus(chosen.weft)
    ranks = chosen.ranks or gpus
    if ranks < 2:
        print("%s: %d GPUs found: at least 2 are needed" % (name, ranks), file=sys.stderr)
        return 2
    site = make(chosen.weft, ranks, chosen.limit, chosen.trial)
    figures, failures = measure(
        site, {what: work for what, work in repeated.items() if what in chosen.only},
        {what: work for what, work in once.items() if what in chosen.only}, chosen.rounds, begin + chosen.seconds,
    )  # fmt: skip
    facts = {
        **comparison.machine([site], "D", chosen.weft),
        "gpus": gpus,
        "ranks": ranks,
        "trial": chosen.trial,
        "failures": failures,
        "details": site.details,
    }
    rows = evaluate(figures, bars, chosen.trial)
    show(rows, facts)
    path = chosen.json or os.path.join(BENCH, "results", "%s-%d.json" % (name, ranks))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**facts, "rows": rows}, file, indent=1)
        file.write("\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run("Measures Weft on GPUs and compares with required figures.", "bars", ROUNDS, ONCE, BARS))
