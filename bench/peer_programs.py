# SPDX-License-Identifier: BSD-3-Clause
# The libraries that peers.py compares, and the jobs that it measures. Open MPI runs bench/*.c built with its mpicc;
# NCCL runs the same programs with nccl.c preloaded; UCX runs ucx_perftest.
import concurrent.futures
import csv
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "bench")
NVLS = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}  # NVLink multicast: off, as the reports state
MEBI = 1048576
SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# One program run with its sizes and the measured JSON field. `ranks`: 0 for all GPUs.
Job = namedtuple("Job", "name program ranks sizes options field")
JOBS = (
    Job("latency", "latency", 2, "8,1K,8K,64K,1M,4M", (), "latency_us"),
    Job("window", "bw", 2, "8K,64K,1M,4M,64M", (), "bandwidth_mb_s"),  # by default bw starts with small sizes
    Job("long window", "bw", 2, "64K", ("-i", "1000", "-x", "200"), "bandwidth_mb_s"),  # the default takes only 1 ms
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


class Failure(Exception):
    """A measurement is not possible; the text is the reason."""


def bytes_of(text):
    """Returns the bytes of a size such as 1K."""
    return int(text[:-1]) * SUFFIX[text[-1]] if text[-1] in SUFFIX else int(text)


def size_range(sizes):
    """Returns the argument of -m; a single size without a range would be a maximum."""
    return sizes if "," in sizes else f"{sizes}:{sizes}"


def points_of(job):
    """Returns {size in bytes: name of the point}."""
    name = job.name.rpartition(" ")[2] if job.name.startswith("large ") else job.name
    return {bytes_of(size): f"{name} {size}" for size in job.sizes.split(",")}


def source_of(program):
    """Returns the source of a program: its own name, or the folder of a program that has several names."""
    with open(os.path.join(BENCH, "programs.csv"), encoding="utf-8") as file:
        sources = dict(line.split(";")[:2] for line in file if not line.startswith("#"))
    if program not in sources and os.path.exists(os.path.join(BENCH, program + ".c")):
        return program  # a program that `weft bench` does not start
    return sources.get(program, "coll")  # nonblocking and persistent forms of collectives


def execute(command, environment, seconds):
    """Returns the standard output of a command; kills the command and its descendants at the time limit."""
    try:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from None
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure(f"killed after {seconds:.0f} s") from None
    finally:
        kill(child)
    if child.returncode != 0:
        lines = [line.strip() for line in (err + out).splitlines() if re.search("[A-Za-z]", line)]
        raise Failure("status %d: %s" % (child.returncode, lines[0][:160] if lines else "no message"))
    return out


def kill(child):
    """Kills a command and the remaining processes of its session."""
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
        """Returns the job with the changes that this library needs."""
        return job

    def command(self, program, ranks):
        """Returns the words that start a program of bench/."""
        words = [os.path.join(self.programs, program)]
        if not os.path.exists(words[0]):  # a name of a program that has several
            words = [os.path.join(self.programs, source_of(program)), program]
        return [*self.launcher, "-n", str(ranks), *self.preload, *words]

    def measure(self, job, gpus, memory, seconds):
        """Returns {point: figure}."""
        job = self.adapt(job)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = self.command(job.program, job.ranks or gpus)
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
    """Open MPI reduces GPU memory on the host, so large reductions get few iterations."""

    def __init__(self, prefix, memory, folder, jobs=JOBS):
        environment = {
            "OPAL_PREFIX": prefix, "LD_LIBRARY_PATH": join_path(os.path.join(prefix, "lib")),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "isolated",
        }  # fmt: skip
        launcher = [os.path.join(prefix, "bin", "mpirun"), "--oversubscribe"]
        if memory == "D":
            launcher += ["--mca", "pml", "ob1", "--mca", "btl", "self,smcuda"]
        super().__init__("Open MPI", launcher, folder, environment)
        compile_programs(os.path.join(prefix, "bin", "mpicc"), folder, self.environment, jobs)

    def adapt(self, job):
        if job.name == "large allreduce":
            return job._replace(sizes="16M", options=("-i", "3", "-x", "1"))
        return job


class Ucx:
    """ucx_perftest between two processes of this host, with the better of two configurations."""

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
            raise Failure(f"{self.program} does not exist")

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
                break  # keep the figures of the other configuration
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
    """Waits until the server listens; reads the kernel's table, since a connection would count as the client."""
    wanted = f":{port:04X}"
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
    """Yields the lines of ucx_perftest's batch file; a test has the name of its point, without blanks."""
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
    """Returns {point: figure} of the CSV output of ucx_perftest, whose MB are 2^20 bytes."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if ",iterations," in line), None)
    if start is None:
        raise Failure(f"ucx_perftest printed no table: {text.strip()[-120:]}")
    field = {"latency_us": "overall_lat", "bandwidth_mb_s": "overall_bw", "messages_per_s": "overall_mr"}[job.field]
    scale = MEBI / 1e6 if job.field == "bandwidth_mb_s" else 1
    rows = csv.DictReader(lines[start:])
    name = rows.fieldnames[0]  # the column named after the batch file
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


def compile_programs(mpicc, folder, environment, jobs=JOBS):
    """Builds each program of the jobs with a library's mpicc."""
    common = glob.glob(os.path.join(BENCH, "common", "*.c"))

    def build(program):
        sources = [os.path.join(BENCH, program + ".c")]
        if not os.path.exists(sources[0]):
            sources = glob.glob(os.path.join(BENCH, program, "*.c"))
        words = [mpicc, "-std=c99", "-O2", "-I" + BENCH, *sources, *common, "-pthread", "-ldl"]
        words += ["-o", os.path.join(folder, program)]
        execute(words, environment, 60)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(build, sorted({source_of(job.program) for job in jobs})))


def find_nccl(folder):
    for path in (os.path.join(folder, "lib", "libnccl.so.2"), os.path.join(folder, "libnccl.so.2")):
        if os.path.exists(path):
            return path
    raise Failure(f"{folder} has no libnccl.so.2")


def nccl_version(library):
    """Returns the version of NCCL in words, such as "NCCL 2.28.9"."""
    number = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        failed = True
    if failed:
        return "NCCL, version unknown"
    return "NCCL %d.%d.%d" % (number.value // 10000, number.value // 100 % 100, number.value % 100)


def nccl_peers(weft, folder):
    """Returns NCCL with memory of the driver, and NCCL with its own memory registered as windows."""
    library = find_nccl(folder)
    preload = os.path.join(weft, "libexec", "weft", "bench", "libweft-bench-nccl.so")
    if not os.path.exists(preload):
        raise Failure(f"{preload} is missing")
    peers = []
    for name, extra in (("NCCL", {}), ("NCCL, windows", {"BENCH_NCCL_WINDOWS": "1"})):
        variables = {"LD_PRELOAD": preload, "BENCH_NCCL": library, **NVLS, **extra}
        words = ["env", *("%s=%s" % item for item in variables.items())]
        peer = weft_peer(name, weft, preload=words)
        peer.facts["library"] = nccl_version(library) + ", NVLS off"
        peer.read = lambda facts, job, peer=peer: named_nccl(peer, facts, job)
        peers.append(peer)
    moved = ("allreduce", "allgather", "reduce_scatter")  # collectives with symmetric kernels
    peers[1].jobs = moved + tuple("large " + name for name in moved)
    return peers


def named_nccl(peer, facts, job):
    library = peer.facts["library"]
    figures = MpiPeer.read(peer, facts, job)
    peer.facts["library"] = library
    return figures


def weft_peer(name, prefix, environment=(), preload=()):
    launcher = [os.path.join(prefix, "bin", "mpiexec")]
    return MpiPeer(name, launcher, os.path.join(prefix, "libexec", "weft", "bench"), environment, preload)


def commit_of(prefix):
    """Returns the commit of Weft in a prefix, with + behind it if its sources had changes. Raises Failure without one: a
    result file must name the library that it measures."""
    version = execute([os.path.join(prefix, "bin", "mpiexec"), "--version"], dict(os.environ), 20)
    found = re.search(r"\(commit ([0-9a-f]+\+?)\)", version)
    if not found:
        raise Failure(f"{version.strip()}: the library does not name its commit")
    return found[1]
