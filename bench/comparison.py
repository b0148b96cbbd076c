# SPDX-License-Identifier: BSD-3-Clause
# Shared by the comparisons of libraries on the GPUs of one machine (peers.py, cold.py, programs.py): options, alternating
# rounds, the machine, the result file.
import datetime
import json
import os
import sys
import time

from peer_programs import BENCH, ROOT, Failure, commit_of, execute, join_path, weft_peer

BEFORE = "Weft, before"
VISIBILITY = os.path.join(BENCH, "common", "per_task.sh")


def add_options(parser, seconds, limit):
    """Adds the options of every comparison to a parser, with the default limits in seconds of all rounds and of one run."""
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"))
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI built with CUDA")
    parser.add_argument("--per-task", action="store_true", help="ranks that see their own GPU only (srun)")
    parser.add_argument("--ranks", type=int, help="number of ranks (the number of GPUs)")
    parser.add_argument("--rounds", type=int, default=5, help="largest number of rounds (%(default)s)")
    parser.add_argument("--seconds", type=float, default=seconds, help="time limit of all rounds (%(default)s)")
    parser.add_argument(
        "--limit", type=float, default=limit, help="time limit of one run, after which it is killed (%(default)s)"
    )
    parser.add_argument("--memory", choices=("D", "H"), default="D", help="device or host memory (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="result file (in bench/results, with the number of ranks)")


def gather(others):
    """Returns the libraries that can be started, and the reasons for the missing ones, of {name: (folder that the user gave,
    function that makes a list of libraries from it)}."""
    found, missing = [], {}
    for name, (given, make) in others.items():
        try:
            if not given:
                raise Failure("not given")
            found += make(os.path.abspath(given))
        except Failure as failure:
            missing[name] = str(failure)
    return found, missing


def earlier_build(prefix, programs):
    """Returns an earlier build of Weft with the programs of the folder, some of which the build may lack."""
    peer = weft_peer(BEFORE, prefix, {"LD_LIBRARY_PATH": join_path(os.path.join(prefix, "lib"))})
    peer.programs = programs
    return peer


def limit_visibility(peers):
    """Lets each rank of the libraries see its own GPU only."""
    for peer in peers:
        peer.environment["GPU_VISIBILITY"] = "per_task"
        peer.preload = ["sh", VISIBILITY, *peer.preload]


def count_ranks(chosen):
    """Returns the numbers of GPUs and of ranks."""
    gpus = count_gpus(chosen.weft) if chosen.memory == "D" else 0
    return gpus, chosen.ranks or gpus or 2


class Rounds:
    """Rounds within a time limit; a job that failed with a peer is not repeated with that peer."""

    def __init__(self, peers, gpus, memory, end, limit):
        self.peers, self.gpus, self.memory, self.end, self.limit = peers, gpus, memory, end, limit
        self.figures = {peer.name: {} for peer in peers}  # {peer: {point: [one figure per round]}}
        self.failures = {}  # {peer: {job: reason}}
        self.took = {}  # {(peer, job): seconds of the last run}

    def run(self, jobs, rounds):
        """Returns the number of started rounds."""
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
        print(f"{peer.name}, {job.name}: left out: {reason}", file=sys.stderr, flush=True)
        self.failures.setdefault(peer.name, {})[job.name] = reason


def shown(value):
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def question(words):
    try:
        return execute(words, dict(os.environ), 20).strip()
    except Failure:
        return ""


def machine(peers, memory, weft):
    """Returns GPU, driver, date and the commit of the library in the prefix `weft`."""
    device = next((peer.facts for peer in peers if "device" in peer.facts), {})
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = question(query) if memory == "D" else ""
    name, _, driver = (answer.splitlines() or [""])[0].rpartition(", ")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit_of(weft),
        "gpu": device.get("device", name or "none (host memory)"), "gpus": device.get("devices", 0),
        "driver": "%s, CUDA %s" % (driver or "?", device.get("driver", "?")),
    }  # fmt: skip


def count_gpus(weft):
    """Returns the number of GPUs of this machine, from Weft's own tool."""
    sys.path.insert(0, os.path.join(ROOT, "cli"))
    sys.path.insert(0, weft)
    from weft_mpi import bench

    return bench.count_gpus()


def facts_of(chosen, peers, rounds, number, missing):
    """Returns the part of a result file that says what was measured, in how many rounds."""
    return {
        **machine(peers, chosen.memory, chosen.weft), "ranks": rounds.gpus, "rounds": number, "missing": missing,
        "failures": rounds.failures, "libraries": {peer.name: peer.facts.get("library") for peer in peers},
    }  # fmt: skip


def ratios(values):
    """Returns Weft's ratios to the best of the others and to its earlier build, of {library: time}."""
    others = [value for name, value in values.items() if name not in ("Weft", BEFORE)]
    found = {"ratio": round(values["Weft"] / min(others), 3)} if others and "Weft" in values else {}
    if BEFORE in values and "Weft" in values:
        found["ratio_before"] = round(values["Weft"] / values[BEFORE], 3)
    return found


def show_libraries(peers, facts):
    print("%s x %s, driver %s, %s" % (facts["gpus"], facts["gpu"], facts["driver"], facts["date"]))
    for peer in peers:
        if "library" in peer.facts:
            print("  %-14s %s" % (peer.name, peer.facts["library"]))
    for name, why in facts["missing"].items():
        print("  %-14s left out: %s" % (name, why))


def write(chosen, name, facts):
    """Writes the result file; returns the exit status."""
    path = chosen.json or os.path.join(BENCH, "results", "%s-%d.json" % (name, facts["ranks"]))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    return 1 if "Weft" in facts["failures"] else 0
