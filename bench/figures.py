#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Measures all figures of the documents with one build of Weft: part by part, the most important ones first, each within its
# own time limit, until the time of the whole ends. A part writes one file into bench/results/figures, with the commit of the
# library. A further call measures what is still missing. --list prints the parts and what each needs on this machine.
import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field

import comparison
import host as host_program
from peer_programs import BENCH, NVLS, ROOT, Failure, commit_of, execute

FOLDER = os.path.join(BENCH, "results", "figures")
GRACE_S = 15  # of a program that ends by itself at its limit, before it is killed
OPEN_MPI_CUDA, UCX, NCCL, NVSHMEM = "openmpi-cuda", "ucx", "nccl", "nvshmem"
OPEN_MPI, MPICH, TORCH = "openmpi", "mpich", "torch"
HOST_BUILD_S = 20  # in which bench/host.py builds its programs with each library
REQUIRED = {"date": str, "commit": str}
REQUIRED_OF_GPUS = {**REQUIRED, "gpu": str, "gpus": int, "driver": str}
FILES_PATH, FILES_MIB = "/dev/shm/weft-figures", 1024
BESIDE = (  # program, ranks, options
    ("latency", 2, ("-m", "8,64,1K,4K,16K,64K,256K,1M", "-i", "3000", "-x", "300")),
    ("bw", 2, ("-m", "8,1K,16K,64K,256K,1M", "-i", "50")),
    ("allreduce", 4, ("-m", "8,1K,64K,1M", "-i", "500")),
)


@dataclass
class Part:
    """One result file. `command`: function of the site and the seconds, which returns words; or `make`: function of them that
    returns the content. Without what `needs` names the part is left out; `beside` is passed where it is found."""

    name: str
    seconds: int  # limit
    least: int  # seconds below which it does not begin
    command: object = None
    make: object = None
    gpus: int = 0
    needs: tuple = ()
    beside: tuple = ()


@dataclass
class Site:
    """What this machine has: GPUs, folders of other libraries, and the prefix of Weft."""

    weft: str
    gpus: int
    found: dict  # {library: folder}
    missing: dict = field(default_factory=dict)  # {library: reason}
    folder: str = FOLDER
    scratch: str = ""  # folder for programs that are built here
    trial: bool = False

    def options(self, *libraries):
        """Returns the options that pass the libraries that were found to a program."""
        words = []
        for one in libraries:
            if one in self.found:
                words += ["--openmpi" if one == OPEN_MPI_CUDA else "--" + one, self.found[one]]
        return words

    def program(self, name, *words):
        return [sys.executable, os.path.join(BENCH, name + ".py"), "--weft", self.weft, *map(str, words)]


def limits(site, seconds, rounds):
    """Returns the options of a part on GPUs for its time and its rounds."""
    return ["--seconds", int(seconds), "--rounds", 1 if site.trial else rounds, "--ranks", site.gpus]


def peers(site, seconds):
    small = ("--sizes", "8", "--jobs", "latency,allreduce") if site.trial else ()
    beside = site.options(OPEN_MPI_CUDA, UCX, NCCL)
    return site.program("peers", *limits(site, seconds, 5), *beside, *small)


def per_task(site, seconds):
    small = ("--sizes", "8", "--jobs", "latency") if site.trial else ()
    return site.program("peers", "--per-task", *limits(site, seconds, 3), *small)


def alone(name, rounds=3, without=()):
    """Returns the command of a program that measures Weft alone; `without`: measurements that another part makes."""

    def words(site, seconds):
        module = importlib.import_module(name)
        only = [what for what in (*module.ROUNDS, *module.ONCE) if what not in without] if without else []
        small = ["--trial"] if site.trial else []
        return site.program(name, *limits(site, seconds, rounds), *small, *(["--only", ",".join(only)] if only else []))

    return words


def one_sided(site, seconds):
    """Builds NVSHMEM's program where its package and nvcc are found."""
    begin = time.monotonic()
    program = []
    if NVSHMEM in site.found:
        program = ["env", "NVSHMEM_PUT=" + build_nvshmem(site)]
    command = alone("one_sided", without=("small Jacobi", "large Jacobi"))
    return [*program, *command(site, seconds - (time.monotonic() - begin))]


def cold(site, seconds):
    small = ["--trial", "--sizes", "8"] if site.trial else ["--sizes", "8,64K,64M"]
    return site.program("cold", *limits(site, seconds, 3), *site.options(OPEN_MPI_CUDA, NCCL), *small)


def programs(site, seconds):
    small = ["--scale", "small", "--only", "jacobi overlap"] if site.trial else ["--only", "jacobi", "--only", "128^3"]
    return site.program("programs", *limits(site, seconds, 3), *site.options(OPEN_MPI_CUDA), *small)


def torch_collectives(site, seconds):
    small = ["--trial"] if site.trial else []
    return site.program("torch_collectives", "--python", site.found[TORCH], *limits(site, seconds, 3), *small)


def host(site, seconds):
    return rows_of_host(site, seconds, [row for row in host_rows() if not is_one_sided(row)], "latency_8;barrier")


def one_sided_host(site, seconds):
    return rows_of_host(site, seconds, [row for row in host_rows() if is_one_sided(row)], "put create flush 8")


def rows_of_host(site, seconds, rows, trial_rows):
    words = ["--quiet", *site.options(OPEN_MPI, MPICH), "--rounds", 1 if site.trial else 9]
    words += [
        "--minutes",
        round((seconds - HOST_BUILD_S) / 60, 2),
        "--rows",
        trial_rows if site.trial else ";".join(rows),
    ]
    return site.program("host", *words, *(["--seconds", "0.001"] if site.trial else []))


def host_rows():
    """Returns the rows of bench/host.py in its order."""
    crowd = ["%s, %d ranks" % (name, host_program.CROWD_RANKS) for name in host_program.CROWD]
    programs = host_program.PROGRAM_ROWS.values()
    return [*host_program.PAIR, *crowd, *host_program.WINDOW_CALLS, *programs, "start and end, ms"]


def is_one_sided(row):
    return any(flavor in row for flavor in ("create", "allocate"))


def spawn(site, _):
    length = (
        ("--rounds", 1, "--count", 2) if site.trial else ("--rounds", 3, "--count", 6)
    )  # Open MPI takes 1.2 s for one
    return site.program("spawn", *length, *site.options(OPEN_MPI, MPICH))


def fault_tolerance(site, seconds):
    rounds = 1 if site.trial else 5  # Open MPI hangs in some of them
    return site.program("fault_tolerance", "--rounds", rounds, "--limit", seconds / rounds / 2, *site.options(OPEN_MPI))


def compared(site, program, ranks, options, rounds, end):
    """Returns the result of `weft bench --vs` of one program with the libraries that were found."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [os.path.join(site.weft, "bin", "weft"), "bench", program, *options, "-n", str(ranks)]
        compilers = [os.path.join(site.found[one], "bin", "mpicc") for one in (OPEN_MPI, MPICH)]
        words += ["--rounds", str(rounds), "--json", file.name, "--vs", *compilers]
        execute(words, environment(), max(1, end - time.monotonic()))
        with open(file.name, encoding="utf-8") as text:
            return json.load(text)


def comparisons(site, seconds, plan):
    end = time.monotonic() + seconds
    made = [compared(site, *one, 1 if site.trial else 3, end) for one in plan]
    machine = [one.pop("machine") for one in made][0]
    machine.pop("host")  # its name
    return {"date": time.strftime("%Y-%m-%d"), "commit": commit_of(site.weft), "machine": machine, "comparisons": made}


def beside(site, seconds):
    small = ("-m", "8:8", "-i", "10", "-x", "1")
    return comparisons(site, seconds, [(*one[:2], small) for one in BESIDE[:1]] if site.trial else BESIDE)


def files(site, seconds):
    size = ("-m", "1" if site.trial else str(FILES_MIB), "-r", "1")
    plan = [("io", ranks, (FILES_PATH, *size)) for ranks in ((2,) if site.trial else (2, 4))]
    try:
        return comparisons(site, seconds, plan)
    finally:
        if os.path.exists(FILES_PATH):
            os.remove(FILES_PATH)


# In the order of importance; two GPUs and more.
PARTS = (
    Part("peers", 300, 120, peers, gpus=2, beside=(OPEN_MPI_CUDA, UCX, NCCL)),
    Part("bars", 120, 60, alone("bars", without=("large Jacobi",)), gpus=2),
    Part("one-sided", 90, 60, one_sided, gpus=2, beside=(NVSHMEM,)),
    Part("jacobi", 60, 30, alone("jacobi", 2), gpus=2),
    Part("torch", 120, 70, torch_collectives, gpus=2, needs=(TORCH,)),
    Part("per-task", 90, 50, per_task, gpus=2),
    Part("cold", 60, 40, cold, gpus=2, beside=(OPEN_MPI_CUDA, NCCL)),
    Part("host", 200, 80, host, needs=(OPEN_MPI, MPICH)),
    Part("beside", 200, 60, make=beside, needs=(OPEN_MPI, MPICH)),
    Part("one-sided-host", 120, 60, one_sided_host, needs=(OPEN_MPI, MPICH)),
    Part("spawn", 80, 40, spawn, needs=(OPEN_MPI, MPICH)),
    Part("fault-tolerance", 100, 50, fault_tolerance, needs=(OPEN_MPI,)),
    Part("files", 240, 90, make=files, needs=(OPEN_MPI, MPICH)),
    Part("programs", 100, 60, programs, gpus=2, beside=(OPEN_MPI_CUDA,)),
)


def file_of(part, site):
    """Returns the name of the result file; of parts on GPUs it has their number."""
    return "%s-%d.json" % (part.name, site.gpus) if part.gpus else part.name + ".json"


def environment():
    """Returns the environment of the parts. Open MPI refuses to start as root without two variables."""
    return {**os.environ, **NVLS, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def reason_against(part, site):
    """Returns why a part cannot run here, or an empty string."""
    if part.gpus > site.gpus:
        return "%d GPUs are needed, %d found" % (part.gpus, site.gpus)
    absent = [name for name in part.needs if name not in site.found]
    return "" if not absent else "; ".join("%s: %s" % (name, site.missing.get(name, "not found")) for name in absent)


def is_measured(part, site, commit):
    """Returns True if the part's file exists and is of this commit."""
    path = os.path.join(site.folder, file_of(part, site))
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return json.load(file).get("commit") == commit


def complaint(found, part, commit, trial=False):
    """Returns what a result file lacks, or an empty string: facts that each must have, the commit of this library. A trial
    may run on the emulated driver, which no program names."""
    for key, kind in (REQUIRED_OF_GPUS if part.gpus else REQUIRED).items():
        if not isinstance(found.get(key), kind) or not found[key] or (str(found[key]).startswith("?") and not trial):
            return "it does not name its %s" % key
    return "" if found["commit"] == commit else "it names commit %s, the library %s" % (found["commit"], commit)


def measure(part, site, seconds, commit):
    """Measures one part and writes its file. Raises Failure; the former file is then untouched."""
    target = os.path.join(site.folder, file_of(part, site))
    path = target + ".new"
    try:
        if part.make:
            found = part.make(site, seconds)
        else:
            words = [*map(str, part.command(site, seconds)), "--json", path]
            failed = run(words, environment(), seconds + GRACE_S)
            if not os.path.exists(path):
                raise Failure(failed or "it wrote no file")
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        problem = complaint(found, part, commit, site.trial)
        if problem:
            raise Failure(problem)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
        os.replace(path, target)
    finally:
        if os.path.exists(path):
            os.remove(path)


def run(words, variables, seconds):
    """Runs a part's program, whose output goes to the terminal; returns and reports its failure. The status of a missed
    required figure is one, too: whether the part has figures, its file decides."""
    try:
        print(execute(words, variables, seconds), flush=True)
    except Failure as failure:
        print("figures: %s" % failure, file=sys.stderr, flush=True)
        return str(failure)
    return ""


def nvidia_package(python, name):
    """Returns the folder of a package of NVIDIA beside torch."""
    return imported(python, f"nvidia.{name}", f"print(list(nvidia.{name}.__path__)[0])").strip()


def imported(python, module, code=""):
    """Returns what code prints that uses a module. Raises Failure if the Python does not have it."""
    try:
        return execute([python, "-c", f"import {module}\n{code}"], dict(os.environ), 60)
    except Failure:
        raise Failure(f"{python} has no {module}") from None


def build_nvshmem(site):
    """Returns the program of nvshmem_put.cu, built for the GPUs of this machine."""
    folder, weft, target = site.found[NVSHMEM], site.weft, os.path.join(site.scratch, "nvshmem_put")
    libraries = ["-lnvshmem_device", "-l:libnvshmem_host.so.3", f"-L{weft}/lib", "-lmpi_abi"]
    words = ["nvcc", "-std=c++17", "-O3", "-arch=native", "-rdc=true", f"-I{folder}/include", f"-I{weft}/include"]
    words += [os.path.join(BENCH, "nvshmem_put.cu"), "-o", target, f"-L{folder}/lib", *libraries]
    words += ["-Xlinker", "-rpath", "-Xlinker", f"{folder}/lib:{weft}/lib"]
    execute(words, dict(os.environ), 120)
    return target


def look_for(chosen):
    """Returns {library: folder} of what is found on this machine, and {library: reason} of what is not."""
    found, missing = {}, {}
    searches = {name: lambda name=name: folder_of(chosen.peers, name) for name in (OPEN_MPI_CUDA, UCX, OPEN_MPI, MPICH)}
    searches[TORCH] = lambda: python_with_torch(chosen.python)
    searches[NCCL] = lambda: nccl_folder(chosen)
    searches[NVSHMEM] = lambda: nvidia_package(chosen.python, "nvshmem")
    for name, search in searches.items():
        try:
            found[name] = search()
        except Failure as failure:
            missing[name] = str(failure)
    return found, missing


def folder_of(peers_folder, name):
    """Returns the folder of a library below the user's folder of libraries."""
    path = os.path.join(peers_folder or "", name)
    if not peers_folder or not os.path.isdir(path):
        raise Failure("no folder %s in --peers" % name)
    return os.path.abspath(path)


def nccl_folder(chosen):
    """Returns NCCL below the user's folder of libraries, else the package beside torch."""
    try:
        return folder_of(chosen.peers, NCCL)
    except Failure:
        return nvidia_package(chosen.python, NCCL)


def python_with_torch(python):
    imported(python, "torch")
    return python


def show_list(parts, site, commit):
    print("Weft %s, %d GPUs, result files in %s" % (commit, site.gpus, os.path.relpath(site.folder, ROOT)))
    for name, why in sorted(site.missing.items()):
        print("not found: %s (%s)" % (name, why))
    print("%-18s%10s%10s  %s" % ("part", "limit, s", "least, s", "state"))
    for part in parts:
        against = reason_against(part, site)
        state = "left out: " + against if against else "to be measured"
        state = "measured" if is_measured(part, site, commit) else state
        absent = [name for name in part.beside if name not in site.found]
        without = " without " + ", ".join(absent) if absent and not against else ""
        print("%-18s%10d%10d  %s%s" % (part.name, part.seconds, part.least, state, without))


def measure_all(parts, site, commit, end, again):
    """Measures the parts until the time ends. Returns {part: reason} of the parts that cannot run here, and of parts that
    failed or had no time."""
    absent, left = {}, {}
    for part in parts:
        against, rest = reason_against(part, site), end - time.monotonic() - GRACE_S
        if not again and is_measured(part, site, commit):
            continue
        if against:
            absent[part.name] = against
            continue
        if rest < part.least:
            left[part.name] = "no time left"
            continue
        print("== %s, at most %d s" % (part.name, min(rest, part.seconds)), flush=True)
        begin = time.monotonic()
        try:
            measure(part, site, min(rest, part.seconds), commit)
            print("== %s took %.0f s" % (part.name, time.monotonic() - begin), flush=True)
        except Failure as failure:
            left[part.name] = str(failure)
            print("== %s: %s" % (part.name, failure), file=sys.stderr, flush=True)
    return absent, left


def arguments():
    parser = argparse.ArgumentParser(description="Measures all figures of the documents with one build of Weft.")
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--peers", metavar="FOLDER", help="folder of openmpi-cuda, ucx, nccl, openmpi and mpich")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, NCCL and NVSHMEM (this one)")
    parser.add_argument("--folder", default=FOLDER, help="of the result files (bench/results/figures)")
    parser.add_argument("--parts", metavar="PART,...", help="some of: " + ", ".join(part.name for part in PARTS))
    parser.add_argument("--seconds", type=float, default=1500, help="time limit of the whole (%(default)g)")
    parser.add_argument("--again", action="store_true", help="also parts whose file is of this commit")
    parser.add_argument("--list", action="store_true", help="print the parts, and what this machine lacks")
    parser.add_argument("--gpus", type=int, help="number of GPUs (that of this machine)")
    parser.add_argument("--trial", action="store_true", help="short runs, whose figures mean nothing")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    known = [part.name for part in PARTS]
    names = chosen.parts.split(",") if chosen.parts else known
    if set(names) - set(known):
        parser.error("--parts %s: no such part" % ",".join(sorted(set(names) - set(known))))
    if chosen.trial and os.path.abspath(chosen.folder) == FOLDER:
        parser.error("--trial needs another --folder")
    chosen.parts = [part for part in PARTS if part.name in names]
    return chosen


def main():
    begin = time.monotonic()
    chosen = arguments()
    try:
        commit = commit_of(chosen.weft)
    except Failure as failure:
        print("figures: %s" % failure, file=sys.stderr)
        return 2
    gpus = comparison.count_gpus(chosen.weft) if chosen.gpus is None else chosen.gpus
    site = Site(chosen.weft, gpus, *look_for(chosen), os.path.abspath(chosen.folder), trial=chosen.trial)
    if chosen.list:
        show_list(chosen.parts, site, commit)
        return 0
    os.makedirs(site.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as site.scratch:
        absent, left = measure_all(chosen.parts, site, commit, begin + chosen.seconds, chosen.again)
    for name, why in {**absent, **left}.items():
        print("without figures: %s: %s" % (name, why))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
