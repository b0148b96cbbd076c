#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Weft beside its peers on the GPUs of one machine, in one run: Open MPI with CUDA, UCX, NCCL. Rounds that alternate
# between them, medians compared. Peers that are not named, fail or hang are left out by name. The MPI programs are
# bench/*.c, built with each library; NCCL runs the same programs with nccl.c preloaded; UCX has ucx_perftest.
import argparse
import concurrent.futures
import csv
import datetime
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "bench")
NVLS = {"NCCL_NVLS_ENABLE": "0"}  # NVLink multicast: off for everyone (said in the report)
MEBI = 1048576
SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# One program run: what it measures, at which sizes. `ranks`: 0 for all GPUs.
Job = namedtuple("Job", "name program ranks sizes options field")
JOBS = (
    Job("latency", "latency", 2, "8,1K,8K,64K,1M,4M", (), "latency_us"),
    Job("window", "bw", 2, "8K,64K,1M,4M,64M", (), "bandwidth_mb_s"),  # bw begins with small sizes by default
    Job("long window", "bw", 2, "64K", ("-i", "1000", "-x", "200"), "bandwidth_mb_s"),  # by default it is 1 ms
    Job("both ways", "bibw", 2, "4M,16M", (), "bandwidth_mb_s"),
    Job("rate", "mbw_mr", 2, "8", ("-W", "64"), "messages_per_s"),
    Job("allreduce", "allreduce", 0, "8,32K,256K,1M", (), "latency_us"),
    Job("large allreduce", "allreduce", 0, "16M,256M", ("-i", "20", "-x", "12"), "latency_us"),
    Job("alltoall", "alltoall", 0, "8,64K,1M", (), "latency_us"),
    Job("large alltoall", "alltoall", 0, "16M", ("-i", "20", "-x", "12"), "latency_us"),
    Job("allgather", "allgather", 0, "8,256K,1M", (), "latency_us"),
    Job("bcast", "bcast", 0, "8,1M", (), "latency_us"),
    Job("reduce_scatter", "reduce_scatter_block", 0, "8,256K,1M", (), "latency_us"),
    Job("large bcast", "bcast", 0, "256M", ("-i", "20", "-x", "12"), "latency_us"),
    Job("large allgather", "allgather", 0, "64M", ("-i", "20", "-x", "12"), "latency_us"),
    Job("large reduce_scatter", "reduce_scatter_block", 0, "64M", ("-i", "20", "-x", "12"), "latency_us"),
)
PAIR_JOBS = ("latency", "window", "long window", "both ways", "rate")
HIGHER_IS_BETTER = ("bandwidth_mb_s", "messages_per_s")
UNITS = {"latency_us": "us", "bandwidth_mb_s": "MB/s", "messages_per_s": "messages/s"}
# What Weft is to reach on H200: (column, point) -> figure. Pairs anywhere, collectives with 4 ranks or more.
BARS = {
    ("Weft", "latency 8"): 4.8, ("Weft", "latency 1K"): 5.5, ("Weft", "latency 8K"): 6.5,
    ("Weft", "latency 64K"): 7.0, ("Weft, lone", "latency 8"): 8.2, ("Weft, lone", "latency 64K"): 8.5,
    ("Weft, lone", "latency 1M"): 11.3, ("Weft, lone", "latency 4M"): 19.8, ("Weft", "window 64K"): 90e3,
    ("Weft", "window 1M"): 300e3, ("Weft", "window 4M"): 340e3, ("Weft", "window 64M"): 387e3,
    ("Weft", "both ways 4M"): 620e3, ("Weft", "both ways 16M"): 700e3, ("Weft", "rate 8"): 1.5e6,
    ("Weft", "allreduce 8"): 6, ("Weft", "allreduce 32K"): 15, ("Weft", "allreduce 256K"): 19,
    ("Weft", "allreduce 1M"): 24, ("Weft", "alltoall 8"): 7, ("Weft", "alltoall 64K"): 15,
    ("Weft", "alltoall 1M"): 35, ("Weft", "allgather 8"): 7, ("Weft", "bcast 8"): 7, ("Weft", "reduce_scatter 8"): 7,
}  # fmt: skip

# What Weft is to reach beside NCCL in the same run: the times' ratio, with 4 ranks or more. 256 KiB and 64 MiB a rank
# are 1 and 256 MiB in all with 4 ranks.
NCCL_BARS = {
    "allreduce 16M": 0.85, "allreduce 256M": 1.0, "allgather 256K": 0.7, "bcast 1M": 0.7, "reduce_scatter 256K": 0.7,
    "bcast 256M": 1.0, "allgather 64M": 0.9, "reduce_scatter 64M": 0.9,
}  # fmt: skip
LINK_GB_S = 396  # what a GPU of these takes in at most, measured
ALLTOALL_BAR = 1.2  # times what the links need for 16 MiB from each other rank


class Failure(Exception):
    """Something cannot be measured; the text says why."""


def bytes_of(text):
    """1K -> 1024."""
    return int(text[:-1]) * SUFFIX[text[-1]] if text[-1] in SUFFIX else int(text)


def size_range(sizes):
    """What -m takes: one size alone would be the largest of many."""
    return sizes if "," in sizes else "%s:%s" % (sizes, sizes)


def points_of(job):
    """{size in bytes: name of the point}."""
    name = job.name.rpartition(" ")[2] if job.name.startswith("large ") else job.name
    return {bytes_of(size): "%s %s" % (name, size) for size in job.sizes.split(",")}


def execute(command, environment, seconds):
    """Standard output of a command; it and all that it started are killed when the time is over."""
    try:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failure("%s: %s" % (command[0], error.strerror)) from None
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure("killed after %.0f s" % seconds) from None
    finally:
        kill(child)
    if child.returncode != 0:
        lines = [line.strip() for line in (err + out).splitlines() if re.search("[A-Za-z]", line)]
        raise Failure("status %d: %s" % (child.returncode, lines[0][:160] if lines else "no message"))
    return out


def kill(child):
    """Ends a command and its session's processes, if there are any left."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


class MpiPeer:
    """Programs of bench/ with one MPI library."""

    jobs = tuple(job.name for job in JOBS)

    def __init__(self, name, launcher, programs, environment=(), preload=()):
        self.name = name
        self.launcher = launcher
        self.programs = programs
        self.environment = {**os.environ, **dict(environment)}
        self.preload = list(preload)  # words between the launcher and the program
        self.facts = {}

    def adapt(self, job):
        """The job as this library runs it."""
        return job

    def measure(self, job, gpus, memory, seconds):
        """{point: figure}."""
        job = self.adapt(job)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            program = [os.path.join(self.programs, job.program)]
            if not os.path.exists(program[0]):  # a form of a collective
                program = [os.path.join(self.programs, "coll"), job.program]
            words = [*self.launcher, "-n", str(job.ranks or gpus), *self.preload, *program]
            words += ["-m", size_range(job.sizes), *job.options, *(["-d", "cuda"] if memory == "D" else [])]
            words += ["--json", file.name]
            execute(words, self.environment, seconds)
            with open(file.name, encoding="utf-8") as text:
                return self.read(json.load(text), job)

    def read(self, facts, job):
        self.facts = {key: facts[key] for key in ("library", "device", "devices", "driver") if key in facts}
        self.facts["library"] = self.facts["library"].split(",")[0]  # Open MPI appends host and user
        points = points_of(job)
        return {points[row["size"]]: row[job.field] for row in facts["rows"]}


class OpenMpi(MpiPeer):
    """Open MPI: reductions of GPU memory go through the host, so large ones get few iterations."""

    def __init__(self, prefix, memory, folder):
        environment = {
            "OPAL_PREFIX": prefix, "LD_LIBRARY_PATH": join_path(os.path.join(prefix, "lib")),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "isolated",
        }  # fmt: skip
        launcher = [os.path.join(prefix, "bin", "mpirun"), "--oversubscribe"]
        if memory == "D":
            launcher += ["--mca", "pml", "ob1", "--mca", "btl", "self,smcuda"]
        super().__init__("Open MPI", launcher, folder, environment)
        compile_programs(os.path.join(prefix, "bin", "mpicc"), folder, self.environment)

    def adapt(self, job):
        if job.name == "large allreduce":
            return job._replace(sizes="16M", options=("-i", "3", "-x", "1"))
        return job


class Ucx:
    """ucx_perftest between two processes of this host; of its configurations the better one counts."""

    name = "UCX"
    jobs = ("latency", "window", "rate")
    configurations = {"default": {}, "rendezvous always": {"UCX_RNDV_THRESH": "1"}}

    def __init__(self, prefix, memory):
        self.program = os.path.join(prefix, "bin", "ucx_perftest")
        self.facts = {"library": ucx_version(prefix)}
        transports = "cuda_ipc,cuda_copy,sm,self" if memory == "D" else "sm,self"
        path = join_path(os.path.join(prefix, "lib"))
        self.environment = {**os.environ, "LD_LIBRARY_PATH": path, "UCX_TLS": transports}
        self.port = 23000 + os.getpid() % 20000
        if not os.path.exists(self.program):
            raise Failure("%s does not exist" % self.program)

    def measure(self, job, _, memory, seconds):
        best = {}
        choose = max if job.field in HIGHER_IS_BETTER else min
        end = time.monotonic() + seconds
        for settings in self.configurations.values():
            try:
                figures = self.run(job, memory, settings, end)
            except Failure:
                if not best:
                    raise
                break  # the other configuration's figures stand
            for point, value in figures.items():
                best[point] = choose(best[point], value) if point in best else value
        return best

    def run(self, job, memory, settings, end):
        environment = {**self.environment, **settings}
        self.port += 1
        with tempfile.NamedTemporaryFile("w", suffix=".batch") as batch:
            batch.write("\n".join(ucx_batch(job, memory)) + "\n")
            batch.flush()
            words = [self.program, "-b", batch.name, "-p", str(self.port)]
            server = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                wait_for_port(self.port, server)
                out = execute([*words, "-f", "-v", "127.0.0.1"], environment, max(1, end - time.monotonic()))
            finally:
                kill(server)
        return ucx_figures(out, job)


def join_path(folder):
    rest = os.environ.get("LD_LIBRARY_PATH")
    return folder + (":" + rest if rest else "")


def wait_for_port(port, server, seconds=10):
    """Until somebody listens at the port; asks the kernel's table, since a connection would count as the client."""
    wanted = ":%04X" % port
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if os.path.exists(table) and listens(table, wanted):
                return
        time.sleep(0.02)
    raise Failure("the server does not listen" if server.poll() is None else "the server ended early")


def listens(table, wanted):
    with open(table, encoding="ascii") as file:
        return any(
            fields[1].endswith(wanted) and fields[3] == "0A"
            for fields in (line.split() for line in file)
            if len(fields) > 3
        )


def ucx_batch(job, memory):
    """Lines of ucx_perftest's batch file; a test is named after its point, without blanks."""
    kind = "cuda" if memory == "D" else "host"
    options = dict(zip(job.options[::2], job.options[1::2]))
    for size, point in points_of(job).items():
        if job.name == "latency":
            what = "-t tag_lat -n %d -w %d" % ((10000, 200) if size <= 8192 else (1000, 10))
        else:
            windows = int(options.get("-i", 100 if size <= 8192 else 20 if size <= 4 * MEBI else 5))
            warmup = int(options.get("-x", max(1, windows // 10)))
            what = "-t tag_bw -O 64 -n %d -w %d" % (64 * windows, 64 * warmup)
        yield "%s %s -s %d -m %s" % (point.replace(" ", "_"), what, size, kind)


def ucx_figures(text, job):
    """{point: figure} of the CSV that ucx_perftest prints; its MB are 2^20 bytes."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if ",iterations," in line), None)
    if start is None:
        raise Failure("ucx_perftest printed no table: %s" % text.strip()[-120:])
    field = {"latency_us": "overall_lat", "bandwidth_mb_s": "overall_bw", "messages_per_s": "overall_mr"}[job.field]
    scale = MEBI / 1e6 if job.field == "bandwidth_mb_s" else 1
    rows = csv.DictReader(lines[start:])
    name = rows.fieldnames[0]  # that of the batch file
    figures = {row[name].replace("_", " "): float(row[field]) * scale for row in rows if row.get(field)}
    if not figures:
        raise Failure("ucx_perftest printed an empty table")
    return figures


def ucx_version(prefix):
    try:
        out = execute([os.path.join(prefix, "bin", "ucx_info"), "-v"],
                      {**os.environ, "LD_LIBRARY_PATH": join_path(os.path.join(prefix, "lib"))}, 20)  # fmt: skip
    except Failure:
        return "UCX, version unknown"
    found = re.search(r"version[:=]?\s*([\d.]+)", out, re.IGNORECASE)
    return "UCX " + (found.group(1) if found else "?")


def compile_programs(mpicc, folder, environment):
    """Builds each program of JOBS with a library's mpicc."""
    common = glob.glob(os.path.join(BENCH, "common", "*.c"))

    def build(program):
        sources = [os.path.join(BENCH, program + ".c")]
        if not os.path.exists(sources[0]):
            sources = glob.glob(os.path.join(BENCH, "coll", "*.c"))  # measures what its own name says
        words = [mpicc, "-std=c99", "-O2", "-I" + BENCH, *sources, *common, "-ldl"]
        words += ["-o", os.path.join(folder, program)]
        execute(words, environment, 60)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(build, sorted({job.program for job in JOBS})))


def find_nccl(folder):
    for path in (os.path.join(folder, "lib", "libnccl.so.2"), os.path.join(folder, "libnccl.so.2")):
        if os.path.exists(path):
            return path
    raise Failure("%s has no libnccl.so.2" % folder)


def nccl_peers(weft, folder):
    """NCCL with memory of the driver, and with its own memory registered as windows."""
    library = find_nccl(folder)
    preload = os.path.join(weft, "libexec", "weft", "bench", "libweft-bench-nccl.so")
    if not os.path.exists(preload):
        raise Failure("%s is missing" % preload)
    peers = []
    for name, extra in (("NCCL", {}), ("NCCL, windows", {"BENCH_NCCL_WINDOWS": "1"})):
        variables = {"LD_PRELOAD": preload, "BENCH_NCCL": library, **NVLS, **extra}
        words = ["env", *("%s=%s" % item for item in variables.items())]
        peer = weft_peer(name, weft, preload=words)
        peer.read = lambda facts, job, peer=peer: named_nccl(peer, facts, job, library)
        peers.append(peer)
    moved = ("allreduce", "allgather", "reduce_scatter")  # it has symmetric kernels for them
    peers[1].jobs = moved + tuple("large " + name for name in moved)
    return peers


def named_nccl(peer, facts, job, library):
    figures = MpiPeer.read(peer, facts, job)
    peer.facts["library"] = "NCCL (%s), NVLS off" % os.path.basename(os.path.realpath(library))
    return figures


def weft_peer(name, prefix, environment=(), preload=()):
    launcher = [os.path.join(prefix, "bin", "mpiexec")]
    return MpiPeer(name, launcher, os.path.join(prefix, "libexec", "weft", "bench"), environment, preload)


def gather_peers(chosen, folder):
    """The peers that can be started; what is wrong with the others is in the second result."""
    lone = weft_peer("Weft, lone", chosen.weft, {"WEFT_GPU_COPIER": "off"})
    lone.jobs = ("latency",)
    peers, missing = [weft_peer("Weft", chosen.weft)], {}
    if chosen.memory == "D":
        peers.append(lone)
    for name, given, make in (
        ("Open MPI", chosen.openmpi, lambda path: [OpenMpi(path, chosen.memory, folder)]),
        ("UCX", chosen.ucx, lambda path: [Ucx(path, chosen.memory)]),
        ("NCCL", chosen.nccl, lambda path: nccl_peers(chosen.weft, path)),
    ):
        try:
            if not given:
                raise Failure("not given")
            peers += make(os.path.abspath(given))
        except Failure as failure:
            missing[name] = str(failure)
    return peers, missing


class Rounds:
    """Rounds within a time limit; a job that failed with a peer is not tried again there."""

    def __init__(self, peers, gpus, memory, end, limit):
        self.peers, self.gpus, self.memory, self.end, self.limit = peers, gpus, memory, end, limit
        self.figures = {peer.name: {} for peer in peers}  # {peer: {point: [a figure a round]}}
        self.failures = {}  # {peer: {job: reason}}
        self.took = {}  # seconds of the last run

    def run(self, jobs, rounds):
        """How many rounds were begun."""
        for number in range(rounds):
            order = self.peers if number % 2 == 0 else self.peers[::-1]
            for job in jobs:
                for peer in order:
                    if job.name in peer.jobs and job.name not in self.failures.get(peer.name, {}):
                        self.once(peer, job)
            if time.monotonic() > self.end:
                return number + 1
        return rounds

    def once(self, peer, job):
        start = time.monotonic()
        if start + self.took.get((peer.name, job.name), 0) > self.end:
            if (peer.name, job.name) not in self.took:
                self.fail(peer, job, "no time left")
            return
        try:
            measured = peer.measure(job, self.gpus, self.memory, min(self.limit, self.end + 5 - start))
        except Failure as failure:
            self.fail(peer, job, str(failure))
            return
        self.took[peer.name, job.name] = time.monotonic() - start
        for point, value in measured.items():
            self.figures[peer.name].setdefault(point, []).append(value)

    def fail(self, peer, job, reason):
        print("%s, %s: left out: %s" % (peer.name, job.name, reason), file=sys.stderr, flush=True)
        self.failures.setdefault(peer.name, {})[job.name] = reason


def compare(figures, jobs, gpus, bars=True):
    """One row a point: the medians, Weft's ratio to the best of the others, the bars."""
    rows = []
    for job in jobs:
        for point in points_of(job).values():
            values = {peer: statistics.median(points[point]) for peer, points in figures.items() if points.get(point)}
            row = {"point": point, "unit": UNITS[job.field], "figures": values}
            others = [value for peer, value in values.items() if not peer.startswith("Weft")]
            higher = job.field in HIGHER_IS_BETTER
            if others and "Weft" in values:
                row["ratio"] = round(values["Weft"] / (max if higher else min)(others), 3)
            row["bars"] = bars_of(values, point, higher, gpus) if bars and (job.name in PAIR_JOBS or gpus >= 4) else []
            rows.append(row)
    return rows


def bars_of(values, point, higher, gpus):
    found = []
    bars = dict(BARS)
    bars["Weft", "alltoall 16M"] = round(ALLTOALL_BAR * (gpus - 1) * 16 * MEBI / LINK_GB_S / 1e3, 1)
    if "NCCL" in values and point in NCCL_BARS:
        bars["Weft", point] = round(NCCL_BARS[point] * values["NCCL"], 1)
    for (column, name), bar in bars.items():
        if name == point and column in values:
            met = values[column] >= bar if higher else values[column] <= bar
            found.append({"column": column, "bar": bar, "met": met})
    return found


def show(rows, peers, facts):
    print("%s x %s, driver %s, %s" % (facts["gpus"], facts["gpu"], facts["driver"], facts["date"]))
    for peer in peers:
        print("  %-14s %s" % (peer.name, peer.facts.get("library", "")))
    for name, why in facts["missing"].items():
        print("  %-14s left out: %s" % (name, why))
    print("Medians of %d rounds; ratio: Weft over the best of the others." % facts["rounds"])
    print("%-18s%-11s" % ("", "unit") + "".join("%15s" % peer.name for peer in peers) + "%8s  bars" % "ratio")
    for row in rows:
        cells = "".join("%15s" % shown(row["figures"].get(peer.name)) for peer in peers)
        bars = ", ".join("%s %s %s" % (bar["column"], shown(bar["bar"]), "met" if bar["met"] else "MISSED")
                         for bar in row["bars"])  # fmt: skip
        print("%-18s%-11s%s%8s  %s" % (row["point"], row["unit"], cells, row.get("ratio", "-"), bars))


def shown(value):
    return "-" if value is None else "%.2f" % value if value < 100 else "%.0f" % value


def question(words):
    try:
        return execute(words, dict(os.environ), 20).strip()
    except Failure:
        return ""


def machine(peers, memory):
    """GPU, driver, date and commit."""
    device = next((peer.facts for peer in peers if "device" in peer.facts), {})
    version = question(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]) if memory == "D" else ""
    driver = (version.splitlines() or ["?"])[0]
    return {
        "date": datetime.date.today().isoformat(),
        "commit": question(["git", "-C", ROOT, "describe", "--always", "--dirty"]) or "?",
        "gpu": device.get("device", "none (host memory)"), "gpus": device.get("devices", 0),
        "driver": "%s, CUDA %s" % (driver, device.get("driver", "?")),
    }  # fmt: skip


def count_gpus(weft):
    """GPUs of this machine, as Weft's own tool counts them."""
    sys.path.insert(0, os.path.join(ROOT, "cli"))
    sys.path.insert(0, weft)
    from weft import bench

    return bench.count_gpus()


def arguments():
    parser = argparse.ArgumentParser(
        description="Compares Weft with Open MPI, UCX and NCCL on the GPUs of one machine."
    )
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI built with CUDA")
    parser.add_argument("--ucx", metavar="PREFIX", help="UCX with ucx_perftest (libucx of the package libucx-cu13)")
    parser.add_argument("--nccl", metavar="FOLDER", help="where libnccl.so.2 is, or its parent")
    parser.add_argument("--ranks", type=int, help="of the collectives (the number of GPUs)")
    parser.add_argument("--rounds", type=int, default=5, help="at most (5)")
    parser.add_argument("--seconds", type=float, default=600, help="time for everything (600)")
    parser.add_argument("--limit", type=float, default=40, help="time for one run, before it is killed (40)")
    parser.add_argument("--memory", choices=("D", "H"), default="D", help="device or host memory (D)")
    parser.add_argument("--jobs", metavar="JOB,...", help="some of: " + ", ".join(job.name for job in JOBS))
    parser.add_argument("--sizes", metavar="MAX", help="leave out larger messages, such as 64K")
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/peers-<GPUs>.json)")
    chosen = parser.parse_args()
    chosen.weft = os.path.abspath(chosen.weft)
    known = {job.name for job in JOBS}
    names = set(chosen.jobs.split(",")) if chosen.jobs else known
    if names - known:
        parser.error("--jobs %s: no such job" % ",".join(sorted(names - known)))
    chosen.jobs = [job for job in JOBS if job.name in names]
    if chosen.sizes:
        if not re.fullmatch(r"\d+[KMG]?", chosen.sizes):
            parser.error("--sizes %s: expected a number of bytes such as 64K" % chosen.sizes)
        chosen.jobs = [job for job in map(lambda job: within(job, bytes_of(chosen.sizes)), chosen.jobs) if job.sizes]
    return chosen


def within(job, largest):
    return job._replace(sizes=",".join(size for size in job.sizes.split(",") if bytes_of(size) <= largest))


def main():
    begin = time.monotonic()
    chosen = arguments()
    gpus = chosen.ranks or (count_gpus(chosen.weft) if chosen.memory == "D" else 2)
    if gpus < 2:
        print("peers: %d GPUs here: at least 2 are needed" % gpus, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        peers, missing = gather_peers(chosen, folder)
        rounds = Rounds(peers, gpus, chosen.memory, begin + chosen.seconds, chosen.limit)
        number = rounds.run(chosen.jobs, chosen.rounds)
    facts = {**machine(peers, chosen.memory), "ranks": gpus, "rounds": number, "missing": missing,
             "failures": rounds.failures, "libraries": {peer.name: peer.facts.get("library") for peer in peers},
             "nvls": "off"}  # fmt: skip
    rows = compare(rounds.figures, chosen.jobs, gpus, chosen.memory == "D")
    show(rows, peers, facts)
    path = chosen.json or os.path.join(BENCH, "results", "peers-%d.json" % gpus)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**facts, "rows": rows, "figures": rounds.figures}, file, indent=1)
        file.write("\n")
    return 1 if "Weft" in rounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
