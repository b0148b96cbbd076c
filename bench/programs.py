#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares programs, not calls, between Weft, an earlier build of Weft and Open MPI with CUDA, in alternating rounds on
# the GPUs of one machine: the Jacobi solver, a transform, loops of CuPy and PyTorch over mpi4py, and any command. Beside
# each time stand the parts inside and outside of MPI calls (phases.c) and, of Weft, what was cold (`weft trace`).
import argparse
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import time

import comparison
from comparison import BEFORE
from peer_programs import BENCH, ROOT, Failure, Job, OpenMpi, execute, weft_peer

FIRST = 5  # steps of a loop whose mean is a row of its own
WHOLE = "MPI_Init to MPI_Finalize"
GOAL = 0.9  # of Weft's time to the other library's
SMALL, LARGE = "small", "large"
CUBES = {SMALL: (24,), LARGE: (64, 128, 256)}
GRIDS = {SMALL: ((256, 64, 20),), LARGE: ((16384, 128, 2000), (16384, 16384, 300))}  # columns, rows, iterations
VARIANTS = {SMALL: ("cuda_aware", "overlap", "host_staged", "window")}
VARIANTS[LARGE] = (*VARIANTS[SMALL], "device")  # needs Weft and real GPUs
REDISTRIBUTIONS = ("p2p", "p2p_pl", "a2a", "a2av")
COLD = "cold."  # begins the names of the ranges of a trace that are cold


class Library:
    """An MPI library: where its programs are and how they start."""

    def __init__(self, peer, jacobi):
        self.peer, self.name, self.jacobi = peer, peer.name, jacobi
        self.facts = peer.facts

    def command(self, words, ranks, preload):
        return [*self.peer.launcher, "-n", str(ranks), *self.peer.preload, "env", f"LD_PRELOAD={preload}", *words]


class Program:
    """A program: its words with a library, and the figures of its standard output."""

    def __init__(self, name, words, figures):
        self.name, self.words, self.figures = name, words, figures


def transform(how, edge, pairs, memory):
    def words(library):
        program = os.path.join(library.peer.programs, "transform")
        return [program, "-x", how, "-n", str(edge), "-r", str(pairs), "-d", memory]

    def figures(out):
        means = [float(line.rpartition(" ")[2]) for line in out.splitlines() if line.startswith("mean of")]
        return {f"first {FIRST}": means[0] * 1e-6, f"mean of {pairs}": means[1] * 1e-6}

    return Program(f"transform {how} {edge}^3", words, figures)


def jacobi(variant, grid, memory):
    columns, rows, iterations = grid

    def words(library):
        size = ["-nx", str(columns), "-ny", str(rows), "-niter", str(iterations)]
        return [library.jacobi, *size, "-variant", variant, "-device", memory, "-skip_single_gpu", "-csv"]

    def figures(out):
        return {"time": float(out.strip().splitlines()[-1].split(",")[7])}

    return Program(f"jacobi {variant} {columns}x{rows}", words, figures)


def array_loop(library, steps, options=()):
    def words(_):
        return [sys.executable, os.path.join(BENCH, "array_loop.py"), library, "--steps", str(steps), *options]

    def figures(out):
        us = json.loads(out.strip().splitlines()[-1])["us"]
        return {f"first {FIRST}": statistics.mean(us[:FIRST]) * 1e-6, f"mean of {steps}": statistics.mean(us) * 1e-6}

    return Program(f"mpi4py and {library}", words, figures)


def command(text, figure):
    """A program that the caller names: NAME: WORDS. `figure`: a pattern whose group is a time in seconds; or None."""
    name, _, line = text.partition(": ")

    def words(library):
        return shlex.split(line.replace("{library}", "openmpi" if library.name == "Open MPI" else "weft"))

    def figures(out):
        found = re.findall(figure, out) if figure else []
        if figure and not found:
            raise Failure(f"its output has no {figure}")
        return {"its own time": float(found[-1])} if found else {}

    return Program(name, words, figures)


def programs_of(scale, memory):
    """Returns the programs of a scale, small or large."""
    kind = "cuda" if memory == "D" else "host"
    pairs, steps = (10, 6) if scale == SMALL else (200, 100)
    found = [transform(how, edge, pairs, kind) for edge in CUBES[scale] for how in REDISTRIBUTIONS]
    variants = VARIANTS[scale] if memory == "D" else ("cuda_aware",)
    found += [jacobi(variant, grid, kind) for grid in GRIDS[scale] for variant in variants]
    sizes = ("--cells", "4096", "--edge", "64", "--parameters", "512") if scale == SMALL else ()
    return found + [array_loop(name, steps, sizes) for name in (("cupy", "torch") if memory == "D" else ("numpy",))]


class Measurement:
    """A library as comparison.Rounds takes it; a job's name is that of a program."""

    def __init__(self, library, programs, preload):
        self.library, self.name, self.facts, self.preload = library, library.name, library.facts, preload
        self.programs = {program.name: program for program in programs}
        self.jobs = list(self.programs)

    def measure(self, job, ranks, _, seconds):
        """Returns {point: seconds}: the program's figures, and the means over the ranks of the parts of its time."""
        program = self.programs[job.name]
        with tempfile.NamedTemporaryFile(suffix=".phases") as file:
            words = self.library.command(program.words(self.library), ranks, self.preload)
            out = execute(words, {**self.library.peer.environment, "BENCH_PHASES": file.name}, seconds)
            phases = [json.loads(line) for line in file.read().decode().splitlines()]
        if len(phases) != ranks:
            raise Failure(f"{len(phases)} of {ranks} ranks have written the time of their phases")
        mean = {name: statistics.mean(phase[name] for phase in phases) for name in ("init_s", "total_s", "in_mpi_s")}
        parts = {"MPI_Init": mean["init_s"], WHOLE: mean["total_s"], "in MPI": mean["in_mpi_s"],
                 "outside": mean["total_s"] - mean["in_mpi_s"]}  # fmt: skip
        return {(program.name, name): value for name, value in {**program.figures(out), **parts}.items()}


def cold_seconds(library, program, ranks, weft):
    """Returns the mean over the ranks of the time in ranges named cold.*, from one run under `weft trace`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        words = [os.path.join(weft, "bin", "weft"), "trace", "-o", path, *library.peer.launcher, "-n", str(ranks)]
        execute([*words, *library.peer.preload, *program.words(library)], library.peer.environment, 120)
        with open(path, encoding="utf-8") as file:
            return cold_of_trace(json.load(file)["traceEvents"]) / ranks


def all_cold_seconds(library, programs, ranks, weft, end):
    """Returns {program: seconds} and {program: reason of a failure}; begins no run after the end of the time."""
    cold, failures = {}, {}
    for program in programs:
        if time.monotonic() > end:
            failures[program.name] = "no time left"
            continue
        try:
            cold[program.name] = cold_seconds(library, program, ranks, weft)
        except Failure as failure:
            failures[program.name] = str(failure)
    return cold, failures


def cold_of_trace(events):
    """Returns the seconds of all processes in cold ranges; a range inside of another counts once."""
    total, ends = 0, {}
    for event in sorted((one for one in events if one["name"].startswith(COLD)), key=lambda one: one.get("ts", 0)):
        track = (event["pid"], event["tid"])
        begin, end = max(event["ts"], ends.get(track, 0)), event["ts"] + event["dur"]
        total += max(0, end - begin)
        ends[track] = max(ends.get(track, 0), end)
    return total * 1e-6


def compare(programs, figures, cold):
    """Returns a row for each figure of each program: medians in seconds, ratios of Weft, parts, the goal."""
    rows = []
    for program in programs:
        names = list(
            dict.fromkeys(name for points in figures.values() for owner, name in points if owner == program.name)
        )
        medians = {name: {library: statistics.median(points[program.name, name]) for library, points in figures.items()
                          if points.get((program.name, name))} for name in names}  # fmt: skip
        parts = {part: medians.pop(part) for part in ("MPI_Init", "in MPI", "outside") if part in medians}
        if program.name in cold:
            parts["cold"] = {"Weft": cold[program.name]}
        for name, values in medians.items():
            row = {"program": program.name, "figure": name, "seconds": values, **comparison.ratios(values)}
            if name == WHOLE:
                row["parts"] = parts
            elif "ratio" in row:
                row["met"] = row["ratio"] <= GOAL
            rows.append(row)
    return rows


def show(rows, libraries, facts):
    comparison.show_libraries(libraries, facts)
    print("Medians of %d rounds, %d ranks, milliseconds; ratios of Weft." % (facts["rounds"], facts["ranks"]))
    print("%-32s%-28s" % ("", "") + "".join("%14s" % one.name for one in libraries) + "%8s%8s" % ("ratio", "before"))
    for row in rows:
        line(row["program"], row["figure"], row["seconds"], libraries, row)
        for part, values in row.get("parts", {}).items():
            line("", "  " + part, values, libraries, {})


def line(program, name, seconds, libraries, row):
    cells = "".join("%14s" % comparison.shown(milliseconds(seconds.get(one.name))) for one in libraries)
    print("%-32s%-28s%s%8s%8s" % (program, name, cells, row.get("ratio", "-"), row.get("ratio_before", "-")))


def milliseconds(seconds):
    return None if seconds is None else seconds * 1e3


def openmpi_library(prefix, chosen, folder):
    """Returns Open MPI with the programs, which its compilers build."""
    transforms = [Job("transform", "transform", 0, "0", (), "us")]
    peer = OpenMpi(prefix, chosen.memory, folder, transforms)
    peer.environment["MPI4PY_LIBMPI"] = os.path.join(prefix, "lib", "libmpi.so.40")
    build = os.path.join(folder, "jacobi")
    if any(program.name.startswith("jacobi") for program in chosen.programs):
        compiler = "-DMPI_CXX_COMPILER=" + os.path.join(prefix, "bin", "mpic++")
        execute(["cmake", "-S", os.path.join(ROOT, "examples", "jacobi"), "-B", build, compiler], peer.environment, 120)
        execute(["cmake", "--build", build, "--parallel"], peer.environment, 300)
    return Library(peer, os.path.join(build, "jacobi"))


def gather(chosen, folder):
    """Returns the libraries that can be started, and the reasons for the missing ones."""
    jacobi = os.path.join(chosen.weft, "libexec", "weft", "jacobi")
    mine = weft_peer("Weft", chosen.weft)
    others = {
        BEFORE: (chosen.before, lambda path: [Library(comparison.earlier_build(path, mine.programs), jacobi)]),
        "Open MPI": (chosen.openmpi, lambda path: [openmpi_library(path, chosen, folder)]),
    }
    found, missing = comparison.gather(others)
    found.insert(0, Library(mine, jacobi))
    if chosen.per_task:
        comparison.limit_visibility([library.peer for library in found])
    return found, missing


def arguments():
    parser = argparse.ArgumentParser(description="Compares programs between MPI libraries.")
    comparison.add_options(parser, seconds=600, limit=120)
    parser.add_argument("--before", metavar="PREFIX", help="an earlier build of Weft")
    parser.add_argument("--only", metavar="TEXT", action="append", help="programs whose names contain TEXT; repeatable")
    parser.add_argument("--also", metavar="NAME: COMMAND", action="append", default=[], help="a further program; "
                        "{library} in the command becomes weft or openmpi; repeatable")  # fmt: skip
    parser.add_argument("--figure", metavar="REGEX", help="the time in seconds in the output of these programs")
    parser.add_argument("--scale", choices=(SMALL, LARGE), default=LARGE, help="small: for a trial (%(default)s)")
    chosen = parser.parse_args()
    for text in chosen.also:
        if ": " not in text:
            parser.error(f"--also: '{text}' is not NAME: COMMAND")
    chosen.weft = os.path.abspath(chosen.weft)
    chosen.programs = programs_of(chosen.scale, chosen.memory) + [command(text, chosen.figure) for text in chosen.also]
    if chosen.only:
        chosen.programs = [one for one in chosen.programs if any(text in one.name for text in chosen.only)]
    if not chosen.programs:
        parser.error("--only: no program has such a name")
    return chosen


def main():
    end = time.monotonic()
    chosen = arguments()
    end += chosen.seconds
    gpus, ranks = comparison.count_ranks(chosen)
    preload = os.path.join(chosen.weft, "libexec", "weft", "bench", "libweft-bench-phases.so")
    jobs = [Job(program.name, "", 0, "0", (), "s") for program in chosen.programs]
    with tempfile.TemporaryDirectory() as folder:
        libraries, missing = gather(chosen, folder)
        cold, untraced = all_cold_seconds(libraries[0], chosen.programs, ranks, chosen.weft, end)
        rounds = comparison.Rounds([Measurement(one, chosen.programs, preload) for one in libraries], ranks,
                                   chosen.memory, end, chosen.limit)  # fmt: skip
        number = rounds.run(jobs, chosen.rounds)
    facts = {**comparison.facts_of(chosen, libraries, rounds, number, missing), "gpus": gpus,
             "visibility": "per task" if chosen.per_task else "all", "untraced": untraced, "goal": GOAL}  # fmt: skip
    rows = compare(chosen.programs, rounds.figures, cold)
    show(rows, libraries, facts)
    return comparison.write(chosen, "programs", {**facts, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
