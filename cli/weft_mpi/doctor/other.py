# SPDX-License-Identifier: BSD-3-Clause
# Checks whether another MPI library accepts GPU memory. Child processes run the tests, so a crash is a finding.
import json
import os
import tempfile

from weft_mpi.doctor.finding import broken, ok, slow, unchecked
from weft_mpi.machine import cuda
from weft_mpi.othermpi import OtherMpi

SECONDS = 90
TRIALS = (("small messages", "8:8"), ("large messages", "1M:1M"))
ADVICE = {
    "Open MPI": "use Open MPI configured with --with-cuda (or with a CUDA-enabled UCX), or run the program on Weft",
    "MPICH": "use MPICH configured with --with-cuda, or build the program with mpicc_abi and run it on Weft",
}
REDUCTIONS = ("reductions of GPU memory", "allreduce", "4:64K")


def checks(mpicc):
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        mpi = OtherMpi(mpicc, folder)
        yield ok("library", f"{mpi.version} ({mpi.mpicc})")
        gpu_support_claim, kinds = mpi.gpu_support()
        yield check_claim(gpu_support_claim, kinds)
        yield run_benchmark(mpi, "host messages", "latency", ["-m", "8:8"], gpu_support_claim)
        gpus = cuda.visible_count()
        for name, program, sizes in [(name, "latency", sizes) for name, sizes in TRIALS] + [REDUCTIONS]:
            title = name if "GPU" in name else f"{name} of GPU memory"
            if not gpus:
                yield unchecked(title, "no GPU is usable here")
                continue
            yield run_benchmark(mpi, title, program, ["-d", "cuda", "-m", sizes], gpu_support_claim)


def check_claim(gpu_support_claim, kinds):
    text = f"MPIX_Query_cuda_support: {gpu_support_claim}; mpi_memory_alloc_kinds: {kinds or 'unknown'}"
    return ok("claimed GPU support", text)


def run_benchmark(mpi, title, program, options, gpu_support_claim):
    """Runs a benchmark with validation and returns a finding about its result or failure."""
    words = mpi.benchmark(program)
    result = os.path.join(mpi.folder, "result.json")
    outcome = mpi.run(2, [*words, *options, "-i", "50", "-x", "5", "-c", "--json", result], SECONDS)
    if not outcome.good:
        advice = ADVICE.get(mpi.name, "use a build with CUDA support, or run the program on Weft")
        if "cuda" not in options:
            advice = f"run `{mpi.mpiexec} -n 2` with another program for its error message"
        note = "; the library claims to be CUDA-aware" if gpu_support_claim == "yes" and "cuda" in options else ""
        return broken(title, outcome.reason() + note, advice)
    with open(result, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    text = ", ".join(f"{row['size']} bytes in {row['latency_us']:.1f} us" for row in (rows[0], rows[-1])[: len(rows)])
    if "cuda" in options and rows[-1]["size"] >= 1 << 20 and rows[-1]["latency_us"] > 500:
        return slow(title, f"{text}: messages are staged through host memory",
                    f"compare with Weft: `weft bench latency -d cuda --vs {mpi.mpicc}`")  # fmt: skip
    return ok(title, f"{text}; every byte compared")
