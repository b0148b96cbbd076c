# SPDX-License-Identifier: BSD-3-Clause
# weft export: writes the counters of running jobs in the textfile format of Prometheus' node exporter.
import time

from weft_mpi import output, top
from weft_mpi.job import find, slow_paths, states
from weft_mpi.output import Refusal

# Counters of times of waits, by the value of the label `wait`.
WAITS = {
    "p2p.late_sender_time": "late sender",
    "p2p.late_receiver_time": "late receiver",
    "coll.wait_time": "collective",
    "window.wait_time": "window",
    "core.wait_time": "other",
}
BASE_UNITS = {"ns": ("seconds", 1e-9), "bytes": ("bytes", 1), "events": ("", 1), "objects": ("", 1)}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "export",
        help="write counters of running jobs for Prometheus",
        description=run.__doc__,
        epilog="example: weft export --prometheus /var/lib/node_exporter/weft.prom --interval 15. "
        "Without jobs the file has the number 0 of jobs.",
    )
    parser.add_argument("--prometheus", required=True, metavar="FILE", help="the file, which is replaced at once")
    find.add_arguments(parser)
    parser.add_argument(
        "--interval", type=float, metavar="SECONDS", help="write again and again (default: write once, and end)"
    )
    parser.add_argument("--count", type=int, default=0, metavar="N", help="with --interval: end after N times")
    parser.add_argument("--ranks", action="store_true", help="a value for each rank, not the sum of a job on a host")
    return parser


def run(arguments):
    """Writes what the running jobs of this user on this host (or on all hosts of --job or --hosts) have counted since they
    began: bytes by path, uses of slow paths, times of waits, and all other counters; also the number of ranks, of ranks
    that wait now, and the longest wait. The file has the text format of Prometheus, and the node exporter's textfile
    collector reads it. It reads shared memory: no rank is stopped."""
    if arguments.interval is not None and not 0 < arguments.interval <= 86400 or arguments.count < 0:
        raise Refusal("--interval is a number of seconds, more than 0 and at most 86400; --count is not negative")
    if arguments.count and arguments.interval is None:
        raise Refusal("--count without --interval: the file is written once")
    output.check_writable(arguments.prometheus)
    written = 0
    while True:
        output.write_file(arguments.prometheus, metrics(*ranks_of_jobs(arguments), by_rank=arguments.ranks))
        written += 1
        if arguments.interval is None or written == arguments.count:
            return 0
        time.sleep(arguments.interval)


def ranks_of_jobs(arguments):
    """Returns the ranks of all jobs, and the hosts that were not reached."""
    try:
        found = find.collect(arguments.job, arguments.hosts, counters=True)
    except find.NoJob as none:
        return [], none.problems
    return [rank for text in found.jobs.values() for rank in states.ranks_in(text)], found.problems


def metrics(ranks, problems, *, by_rank):
    """Returns the text. Values of the ranks of a job on a host are added up, unless `by_rank`."""
    families = Families()
    families.declare("weft_jobs", "gauge", "Running jobs")
    families.add("weft_jobs", {}, len({rank.job for rank in ranks}))
    for problem in problems:
        families.declare("weft_host_not_reached", "gauge", "Hosts that could not be looked at")
        families.add("weft_host_not_reached", {"host": problem.host}, 1)
    for rank in ranks:
        labels = {"job": rank.job, "launcher": rank.launcher, "host": rank.host}
        families.declare("weft_job_size", "gauge", "Ranks of the job on all hosts")
        families.set("weft_job_size", labels, rank.size)
        labels = {"job": rank.job, "host": rank.host, **({"rank": str(rank.rank)} if by_rank else {})}
        families.declare("weft_ranks", "gauge", "Ranks that run")
        families.add("weft_ranks", labels, rank.state != "ended")
        families.declare("weft_ranks_waiting", "gauge", "Ranks that have waited in MPI for at least 50 ms")
        families.add("weft_ranks_waiting", labels, bool(rank.waits))
        families.declare("weft_longest_wait_seconds", "gauge", "Time of the longest wait that lasts now")
        families.set("weft_longest_wait_seconds", labels, max([*rank.waits, 0]))
        for name, counter in rank.counters.items():
            add_counter(families, labels, name, counter)
    return families.text()


def add_counter(families, labels, name, counter):
    """Adds a counter under its family: bytes by path, slow paths, times of waits, or a family of its own."""
    unit, factor = BASE_UNITS[counter.unit]
    value = counter.value * factor
    if name in top.PATHS:
        families.declare("weft_path_bytes_total", "counter", "Bytes that a path has moved")
        families.add("weft_path_bytes_total", {**labels, "path": top.PATHS[name]}, value)
    elif name in slow_paths.NAMES:
        families.declare("weft_slow_path_total", "counter", "Uses of a slow path")
        families.add("weft_slow_path_total", {**labels, "path": name}, value)
    elif name in WAITS:
        families.declare("weft_wait_seconds_total", "counter", "Time in which calls have waited for other processes")
        families.add("weft_wait_seconds_total", {**labels, "wait": WAITS[name]}, value)
    else:
        words = name.replace(".", "_").removesuffix("_time").removesuffix("_bytes")
        family = "_".join(filter(None, ("weft", words, unit, "total" if counter.kind == "total" else "")))
        families.declare(family, "counter" if counter.kind == "total" else "gauge", f"The counter {name}")
        join = families.set if counter.kind == "high water" else families.add
        join(family, labels, value)


class Families:
    """Metrics by family, in the order of their declaration."""

    def __init__(self):
        self.heads, self.values = {}, {}

    def declare(self, name, kind, meaning):
        self.heads.setdefault(name, f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n")
        self.values.setdefault(name, {})

    def add(self, name, labels, value):
        series = self.values[name]
        series[label_text(labels)] = series.get(label_text(labels), 0) + value

    def set(self, name, labels, value):
        """Keeps the largest value."""
        series = self.values[name]
        series[label_text(labels)] = max(series.get(label_text(labels), 0), value)

    def text(self):
        lines = []
        for name, head in self.heads.items():
            lines.append(head)
            lines += [f"{name}{labels} {number(value)}\n" for labels, value in self.values[name].items()]
        return "".join(lines)


def number(value):
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(int(value))


def label_text(labels):
    """Returns labels as {name="value"}; backslashes, quotes and line ends are escaped."""
    if not labels:
        return ""
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
