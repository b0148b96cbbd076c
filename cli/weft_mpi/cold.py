# SPDX-License-Identifier: BSD-3-Clause
# weft explain --cold: what the first messages and collectives of a process cost on this host, in total and by the
# counters of the library. A short job of the program bench/cold measures it.
import json
import os
import tempfile

from weft_mpi import children, library, output, prefix
from weft_mpi.machine import cuda
from weft_mpi.output import Failure, Refusal

SECONDS = 120
COUNTERS = "device.cold_"  # counters of ns; the rest of the name is the part
TOTALS = {
    "init": "MPI_Init",
    "first": "first exchange of all pairs",
    "second": "second exchange",
    "steady": "exchange in the steady state",
    "first_sum": "first allreduce",
    "steady_sum": "last allreduce",
    "fresh": "exchange with newly allocated buffers of 64 MiB, median",
}


def run(arguments):
    """Measures and prints the costs. `arguments`: ranks, bytes, kind and json of `weft explain`."""
    if arguments.kind not in ("cuda", "host"):
        raise Refusal(f"--cold measures messages of --kind cuda or host, not {arguments.kind}")
    if arguments.ranks < 2:
        raise Refusal(f"--cold measures messages between ranks: --ranks {arguments.ranks} is too few")
    gpus = cuda.visible_count()
    if arguments.kind == "cuda" and gpus == 0:
        raise Refusal("no usable GPU on this host: use --kind host, or run `weft doctor`")
    facts = measure(arguments.ranks, arguments.bytes, arguments.kind)
    facts["gpus"] = gpus
    print(json.dumps(facts, indent=2) if arguments.json else "\n".join(lines(facts)))
    return 0


def measure(ranks, size, kind):
    """Returns the costs in microseconds, of the slowest rank: totals and parts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cold.json")
        words = [prefix.mpiexec(), "-n", str(ranks), prefix.program("bench/cold"), "-m", str(size), "-d", kind]
        outcome = children.run([*words, "-j", path], SECONDS)
        if not outcome.good:
            raise Failure(f"the measurement failed: {outcome.reason()}")
        row = output.read_json(path, "a result of bench/cold")["rows"][0]
    helps = {counter.split("\t")[0]: counter.split("\t")[3] for counter in counters()}
    parts = [
        {"part": name.removesuffix("_ns"), "counter": COUNTERS + name, "us": us, "help": helps.get(COUNTERS + name, "")}
        for name, us in row["parts_us"].items()
    ]
    totals = {
        "init": row["init_ms"] * 1e3, "first": row["start_us"][0], "second": row["start_us"][1],
        "steady": row["steady_us"], "first_sum": row["sum_us"][0], "steady_sum": row["sum_us"][-1],
        "fresh": sorted(row["fresh_us"])[len(row["fresh_us"]) // 2],
    }  # fmt: skip
    parts.sort(key=lambda part: -part["us"])
    return {"ranks": ranks, "bytes": size, "kind": kind, "total_us": totals, "parts": parts}


def counters():
    """Returns the library's list of counters: lines of name, value, unit and help."""
    return library.text_of(library.load(), "MPIX_Counters").splitlines()


def lines(facts):
    """Yields the lines of the tables."""
    where = f"{facts['kind']} memory"
    if facts["kind"] == "cuda":
        where += f", {facts['gpus']} GPUs"
    yield f"{facts['ranks']} ranks of this host, {where}, messages of {facts['bytes']} bytes; of the slowest rank:"
    for name, text in TOTALS.items():
        yield f"{facts['total_us'][name] / 1e3:10.3f} ms  {text}"
    if facts["parts"]:
        yield "of MPI_Init, the first exchanges and allreduces, by part:"
    for part in facts["parts"]:
        yield f"{part['us'] / 1e3:10.3f} ms  {part['part']:10} {part['help']}"
