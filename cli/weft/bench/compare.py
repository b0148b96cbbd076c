# SPDX-License-Identifier: BSD-3-Clause
# Several runs of one benchmark side by side: other MPI libraries (--vs), GPUDirect switched on and off (--matrix).
# Rounds alternate between the runs, medians are shown; what crashes, hangs or refuses is a finding.
import itertools
import os
import statistics
import tempfile
import time

from weft import children, output
from weft.bench import result
from weft.machine import pci, system
from weft.othermpi import OtherMpi
from weft.output import Failure

SECONDS = 300  # for one run of one library
# What a site would set to switch a path off: UCX's and libfabric's own variables.
SWITCHES = {
    "gpudirect": {"UCX_IB_GPU_DIRECT_RDMA": "n", "FI_HMEM_CUDA_USE_DMABUF": "0", "FI_MLX5_HMEM_DEVICE_DISABLE": "1"},
    "gdrcopy": {"UCX_TLS": "^gdr_copy", "FI_HMEM_CUDA_USE_GDRCOPY": "0"},
}


class Contender:
    """One column: `start(options)` runs the benchmark once."""

    def __init__(self, name, command, environment, version=""):
        self.name, self.command, self.environment, self.version = name, command, environment, version
        self.rounds, self.error = [], None

    def measure(self, folder):
        """One more round, unless an earlier one failed."""
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
        """The rows of the last round, with the medians over all of them."""
        if not self.rounds:
            return []
        merged = [dict(row) for row in self.rounds[-1]["rows"]]
        for at, row in enumerate(merged):
            row[name] = statistics.median(found["rows"][at][name] for found in self.rounds)
        return merged

    def as_run(self, name):
        return {"name": self.name, "library": self.version, "error": self.error, "rows": self.rows(name)}


def weft_contender(job, name="Weft", **variables):
    return Contender(name, job.command(), children.clean_environment(**variables))


def other_contenders(job, folder):
    """A column for each other library. One that cannot be built is a column without figures."""
    for mpicc in job.others:
        try:
            mpi = OtherMpi(mpicc, folder)
            words = mpi.command(job.number(), [*mpi.benchmark(job.program), *job.options])
            yield Contender(mpi.name, words, mpi.environment, mpi.version)
        except output.Refusal as problem:
            made = Contender(os.path.basename(os.path.dirname(os.path.dirname(mpicc))) or mpicc, [], {})
            made.error = str(problem)
            yield made


def matrix_contenders(job):
    """A column for each combination of the switches, all on first."""
    for states in itertools.product((True, False), repeat=len(job.switches)):
        off = [name for name, on in zip(job.switches, states) if not on]
        variables = {}
        for name in off:
            variables.update(SWITCHES[name])
        yield weft_contender(job, "without " + ", ".join(off) if off else "all on", **variables)


def run(job):
    """Measures, prints the table, writes the files. Exit status 1 when Weft itself failed."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        if job.switches:
            contenders = list(matrix_contenders(job))
        else:
            contenders = [weft_contender(job), *distinct(other_contenders(job, folder))]
        if all(contender.error for contender in contenders[1:]) and not job.switches:
            raise output.Refusal("; ".join(contender.error for contender in contenders[1:]))
        with output.progress(job.rounds * len(contenders), "measuring") as step:
            for number in range(job.rounds):
                for contender in contenders if number % 2 == 0 else contenders[::-1]:
                    step("%s, round %d" % (contender.name, number + 1))
                    contender.measure(folder)
    found = combine(job, contenders)
    show(found, contenders)
    from weft import bench

    bench.keep(job, found)
    if contenders[0].error:
        raise Failure("%s: %s" % (contenders[0].name, contenders[0].error))
    return 0


def distinct(contenders):
    """Two libraries of one name are told apart by a number."""
    seen = {"Weft": 1}
    for contender in contenders:
        seen[contender.name] = seen.get(contender.name, 0) + 1
        if seen[contender.name] > 1:
            contender.name += " (%d)" % seen[contender.name]
        yield contender


def combine(job, contenders):
    """The result file of a comparison."""
    samples = [found for contender in contenders for found in contender.rounds]
    name = result.field({"runs": [{"rows": samples[0]["rows"]}]}) if samples else "latency_us"
    return {
        "format": result.FORMAT,
        "program": job.program,
        "options": job.options,
        "ranks": job.number(),
        "rounds": job.rounds,
        "switches": job.switches,
        "runs": [contender.as_run(name) for contender in contenders],
        "machine": system.describe(),
    }


def show(found, contenders):
    """The table; then the libraries' versions, what failed, and what the switches could not change."""
    runs, name = found["runs"], result.field(found)
    print("# %s: %s, %d ranks, medians of %d rounds" % (
        found["program"], result.FIELDS[name], found["ranks"], found["rounds"]))  # fmt: skip
    keys = list(dict.fromkeys((result.kinds_of(row), row["size"]) for run in runs for row in run["rows"]))
    values = [{(result.kinds_of(row), row["size"]): row[name] for row in run["rows"]} for run in runs]
    ratio = "%s / best other" % runs[0]["name"] if not found["switches"] else "all on / all off"
    headings = ["kinds", "size", *(run["name"] for run in runs), ratio]
    rows = [[*key, *(figure(column.get(key)) for column in values), ratio_of(values, key, name, found["switches"])]
            for key in keys]  # fmt: skip
    output.table(headings, rows, numbers=headings[1:])
    for contender in contenders:
        if contender.error:
            print("finding: %s: %s" % (contender.name, contender.error))
        elif contender.version and not found["switches"]:
            print("# %s: %s" % (contender.name, contender.version.split(",")[0]))
    if found["switches"] and not pci.nics():
        print("# no RDMA adapter here: the switches change nothing, the columns show how much runs differ anyway")


def figure(value):
    return "-" if value is None else "%.2f" % value


def ratio_of(values, key, name, switches):
    """The first column over the best of the others (--matrix: over the last, where all is off)."""
    others = [column[key] for column in ([values[-1]] if switches else values[1:]) if key in column]
    if key not in values[0] or not others:
        return "-"
    best = max(others) if name in result.HIGHER_IS_BETTER else min(others)
    return "%.2f" % (values[0][key] / best) if best else "-"
