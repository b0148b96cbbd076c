# SPDX-License-Identifier: BSD-3-Clause
# Comparison of one benchmark with other MPI libraries (--vs) or with GPUDirect on and off (--matrix). Rounds alternate
# between the candidates and medians are printed; crashes, hangs and errors are reported as findings.
import itertools
import os
import statistics
import sys
import tempfile
import time

from weft_mpi import children, output, result
from weft_mpi.machine import pci, system
from weft_mpi.othermpi import OtherMpi

SECONDS = 300  # timeout of one run
MAX_OVERLAP = 0.02  # of a median; rounds that overlap by more give no verdict
# Variables of UCX and libfabric that disable a path.
SWITCHES = {
    "gpudirect": {"UCX_IB_GPU_DIRECT_RDMA": "n", "FI_HMEM_CUDA_USE_DMABUF": "0", "FI_MLX5_HMEM_DEVICE_DISABLE": "1"},
    "gdrcopy": {"UCX_TLS": "^gdr_copy", "FI_HMEM_CUDA_USE_GDRCOPY": "0"},
}


class Candidate:
    """One column of the table: a library or a combination of switches."""

    def __init__(self, name, command, environment, version=""):
        self.name, self.command, self.environment, self.version = name, command, environment, version
        self.rounds, self.error = [], None

    def measure(self, folder):
        """Runs one round, unless an earlier round failed."""
        if self.error:
            return
        path = os.path.join(folder, "result.json")
        if os.path.exists(path):
            os.unlink(path)
        start = time.monotonic()
        outcome = children.run([*self.command, "--json", path], SECONDS, self.environment)
        seconds = time.monotonic() - start
        if not outcome.good:
            self.error = outcome.reason()
            return
        found = result.written(path, seconds)
        self.version = self.version or found["library"]
        self.rounds.append(found)

    def rows(self, name):
        """Returns the rows of the last round with the medians of all rounds."""
        if not self.rounds:
            return []
        merged = [dict(row) for row in self.rounds[-1]["rows"]]
        for at, row in enumerate(merged):
            values = [found["rows"][at][name] for found in self.rounds]
            row[name] = statistics.median(values)
            if len(values) > 2:
                row["spread"] = spread(values)
        return merged

    def as_run(self, name):
        return {"name": self.name, "library": self.version, "error": self.error, "rows": self.rows(name)}


def spread(values):
    """Returns the 10 and 90 percent points."""
    cuts = statistics.quantiles(values, n=10, method="inclusive")
    return [cuts[0], cuts[-1]]


def weft_candidate(job, name="Weft", **variables):
    return Candidate(name, job.command(), children.clean_environment(**variables))


def other_candidates(job, folder):
    """Yields a candidate per other library. If the benchmark does not build with it, the column has no values."""
    for mpicc in job.others:
        try:
            mpi = OtherMpi(mpicc, folder)
            words = mpi.command(job.number(), [*mpi.benchmark(job.program), *job.options])
            yield Candidate(mpi.name, words, mpi.environment, mpi.version)
        except output.Refusal as problem:
            failed = Candidate(os.path.basename(os.path.dirname(os.path.dirname(mpicc))) or mpicc, [], {})
            failed.error = str(problem)
            yield failed


def matrix_candidates(job):
    """Yields a candidate per combination of the switches; the first has all on."""
    for states in itertools.product((True, False), repeat=len(job.switches)):
        off = [name for name, on in zip(job.switches, states) if not on]
        variables = {}
        for name in off:
            variables.update(SWITCHES[name])
        yield weft_candidate(job, f"without {', '.join(off)}" if off else "all on", **variables)


def run(job):
    """Measures and prints the table. Returns the result and the failure of the first candidate, or None."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        if job.switches:
            candidates = list(matrix_candidates(job))
        else:
            candidates = [weft_candidate(job), *distinct(other_candidates(job, folder))]
        if job.others and all(candidate.error for candidate in candidates[1:]):
            raise output.Refusal("; ".join(candidate.error for candidate in candidates[1:]))
        warn_if_busy()
        measure(job, candidates, folder, range(job.rounds))
        found = combine(job, candidates)
        more = range(job.rounds, job.most_rounds)
        if more and any(is_open(found, key) for key in keys_of(found)):
            print(f"# the spread leaves a ratio open: {len(more)} more rounds", flush=True)
            measure(job, candidates, folder, more)
            found = combine(job, candidates)
    show(found, candidates)
    return found, candidates[0].error and f"{candidates[0].name}: {candidates[0].error}"


def warn_if_busy():
    text = system.busy()
    if text:
        print(f"weft bench: {text}", file=sys.stderr)


def measure(job, candidates, folder, numbers):
    """Runs rounds, in which the order of the candidates alternates."""
    with output.progress(len(numbers) * len(candidates), "measuring") as step:
        for number in numbers:
            for candidate in candidates if number % 2 == 0 else candidates[::-1]:
                step(f"{candidate.name}, round {number + 1}")
                candidate.measure(folder)


def keys_of(found):
    """Returns the keys of all rows in order of appearance."""
    rows = (row for run in found["runs"] for row in run["rows"])
    return list(dict.fromkeys((result.kinds_of(row), row["size"]) for row in rows))


def compared(found, key):
    """Returns the rows of the first column and of the column that its ratio is taken to; None if one is missing."""
    name, switches = result.field(found), found.get("switches")
    rows = [
        next((row for row in run.get("rows") or [] if (result.kinds_of(row), row["size"]) == key), None)
        for run in result.runs(found)
    ]
    others = [row for row in (rows[-1:] if switches else rows[1:]) if row]
    if not rows[0] or not others:
        return None
    best = max if name in result.HIGHER_IS_BETTER else min
    return rows[0], best(others, key=lambda row: row[name])


def is_open(found, key):
    """Returns True if the rounds of the two columns of a ratio overlap by more than MAX_OVERLAP of their median."""
    pair = compared(found, key)
    if not pair or not all("spread" in row for row in pair):
        return False
    overlap = min(row["spread"][1] for row in pair) - max(row["spread"][0] for row in pair)
    return overlap > MAX_OVERLAP * pair[1][result.field(found)]


def distinct(candidates):
    """Appends a number to the names of candidates with equal names."""
    seen = {"Weft": 1}
    for candidate in candidates:
        seen[candidate.name] = seen.get(candidate.name, 0) + 1
        if seen[candidate.name] > 1:
            candidate.name += f" ({seen[candidate.name]})"
        yield candidate


def combine(job, candidates):
    """Returns the result file of a comparison."""
    samples = [found for candidate in candidates for found in candidate.rounds]
    name = result.field({"runs": [{"rows": samples[0]["rows"]}]}) if samples else "latency_us"
    return {
        "format": result.FORMAT,
        "program": job.program,
        "options": job.options,
        "ranks": job.number(),
        "rounds": max([len(candidate.rounds) for candidate in candidates], default=0),
        "switches": job.switches,
        "runs": [candidate.as_run(name) for candidate in candidates],
        "machine": system.describe(),
    }


def show(found, candidates):
    """Prints the table, then the libraries' versions, failures, and whether the switches had an effect."""
    runs, name = found["runs"], result.field(found)
    spread = " (10 to 90 percent of them)" if found["rounds"] > 2 else ""
    print(
        f"# {found['program']}: {result.FIELDS[name]}, {found['ranks']} ranks, "
        f"medians of {found['rounds']} rounds{spread}"
    )
    keys = keys_of(found)
    values = [{(result.kinds_of(row), row["size"]): row for row in run["rows"]} for run in runs]
    doubtful = [key for key in keys if is_open(found, key)]
    ratio = f"{runs[0]['name']} / best other" if not found["switches"] else "all on / all off"
    headings = ["kinds", "size", *(run["name"] for run in runs), ratio]
    rows = [[*key, *(figure(column.get(key), name) for column in values),
             ratio_of(found, key, "~" if key in doubtful else "")] for key in keys]  # fmt: skip
    if len(runs) == 1:
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    output.table(headings, rows, numbers=headings[1:])
    if doubtful:
        print("# ~: the rounds of both overlap, so this ratio is no verdict")
    for candidate in candidates:
        if candidate.error:
            print(f"finding: {candidate.name}: {candidate.error}")
        elif candidate.version and not found["switches"]:
            print(f"# {candidate.name}: {candidate.version.split(',')[0]}")
    if found["switches"] and not pci.nics():
        print("# no RDMA adapter here: the switches have no effect; the columns show run-to-run variation")


def figure(row, name):
    """Formats the median of a row and its spread."""
    if row is None:
        return "-"
    ends = " ({:.2f}-{:.2f})".format(*tuple(row["spread"])) if "spread" in row else ""
    return f"{row[name]:.2f}{ends}"


def ratio_of(found, key, mark=""):
    """Returns the ratio of the first column to the best other one (--matrix: to the last one, all switches off)."""
    pair, name = compared(found, key), result.field(found)
    return f"{mark}{pair[0][name] / pair[1][name]:.2f}" if pair and pair[1][name] else "-"
