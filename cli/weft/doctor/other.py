# SPDX-License-Identifier: BSD-3-Clause
# Another MPI library: does it take GPU memory? Tried in child processes, so that a crash is a finding.
import json
import os
import tempfile

from weft.doctor.finding import broken, ok, slow, unchecked
from weft.machine import cuda
from weft.othermpi import OtherMpi

SECONDS = 90
TRIALS = (("small messages", "8:8"), ("large messages", "1M:1M"))
ADVICE = {
    "Open MPI": "use an Open MPI configured with --with-cuda (or with a UCX that has CUDA), or run the program on Weft",
    "MPICH": "use an MPICH configured with --with-cuda, or run the program, built with mpicc_abi, on Weft",
}
REDUCTIONS = ("reductions of GPU memory", "allreduce", "4:64K")


def checks(mpicc):
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        mpi = OtherMpi(mpicc, folder)
        yield ok("library", "%s (%s)" % (mpi.version, mpi.mpicc))
        claim, kinds = mpi.claims()
        yield check_claim(claim, kinds)
        yield try_out(mpi, "host messages", "latency", ["-m", "8:8"], claim)
        gpus = cuda.visible_count()
        for name, program, sizes in [(name, "latency", sizes) for name, sizes in TRIALS] + [REDUCTIONS]:
            title = name if "GPU" in name else name + " of GPU memory"
            if not gpus:
                yield unchecked(title, "no GPU is usable here")
                continue
            yield try_out(mpi, title, program, ["-d", "cuda", "-m", sizes], claim)


def check_claim(claim, kinds):
    text = "MPIX_Query_cuda_support: %s; mpi_memory_alloc_kinds: %s" % (claim, kinds or "not told")
    return ok("what it says of itself", text)


def try_out(mpi, title, program, options, claim):
    """Runs a benchmark with validation; what it printed, or how it ended, is the finding."""
    words = mpi.benchmark(program)
    result = os.path.join(mpi.folder, "result.json")
    outcome = mpi.run(2, [*words, *options, "-i", "50", "-x", "5", "-c", "--json", result], SECONDS)
    if not outcome.good:
        advice = ADVICE.get(mpi.name, "use a build of it with CUDA, or run the program on Weft")
        if "cuda" not in options:
            advice = "run `%s -n 2` on a program of yours and read its message" % mpi.mpiexec
        said = "; it says it were CUDA-aware" if claim == "yes" and "cuda" in options else ""
        return broken(title, outcome.reason() + said, advice)
    with open(result, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    text = ", ".join(
        "%d bytes in %.1f us" % (row["size"], row["latency_us"]) for row in (rows[0], rows[-1])[: len(rows)]
    )
    if "cuda" in options and rows[-1]["size"] >= 1 << 20 and rows[-1]["latency_us"] > 500:
        return slow(title, text + ": they go through host memory", "`weft bench latency -d cuda --vs %s` beside Weft"
                    % mpi.mpicc)  # fmt: skip
    return ok(title, text + "; every byte compared")
