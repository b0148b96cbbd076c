# SPDX-License-Identifier: BSD-3-Clause
# weft trace: runs a program with recording, and merges the files of its ranks into one trace in Chrome's format.
#
# A file of a rank (src/base/recorder.cpp) has a first line with words and values,
#     weft-trace 4 rank 0 size 4 job 1234567 host 0 pid 4711 monotonic NS realtime NS
# and a line per range: the number of its track, begin and end in ns of the monotonic clock, bytes, peer, tag (-1: no
# tag), communicator (0: none) and the name; for tracks that are GPU streams "STREAM|NAME". The first rank of each host but
# rank 0's also has lines "clock NS OFFSET ERROR": by how much the clock of rank 0's host was ahead of its own at that time,
# and the largest error, in ns (src/coll/bootstrap/clocks.cpp).
import functools
import glob
import json
import os
import shutil
import subprocess
import tempfile

from weft_mpi import children, output
from weft_mpi.output import Failure, Refusal

FORMAT = 4
STREAM_TRACKS = 1000  # added to the numbers of tracks that are streams, which are shown below the threads


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "trace",
        help="run a program and write a trace of its MPI calls, protocol steps and copies",
        description=run.__doc__,
        epilog="example: weft trace -o trace.json mpiexec -n 4 ./program. Exit status: that of the program.",
    )
    parser.add_argument("-o", "--output", default="weft-trace.json", metavar="FILE", help="the trace (%(default)s)")
    parser.add_argument("command", metavar="PROGRAM", help="the launcher or program to run")
    parser.add_argument("arguments", nargs="...", metavar="...", help="its arguments")
    return parser


def run(arguments):
    """Runs a program, records the MPI calls, protocol steps and GPU copies of all ranks, and writes them as one trace
    in Chrome's JSON format, which https://ui.perfetto.dev and chrome://tracing show: a process per rank, a track per
    thread and GPU stream, all on one time scale."""
    output.check_writable(arguments.output)
    place = os.path.dirname(os.path.abspath(arguments.output))
    folder = tempfile.mkdtemp(prefix=".weft-trace-", dir=place)  # all hosts of a job must reach it
    try:
        environment = children.clean_environment(WEFT_TRACE_FOLDER=folder)
        try:
            status = subprocess.run([arguments.command, *arguments.arguments], env=environment, check=False).returncode
        except OSError as error:
            raise Refusal(f"{arguments.command} cannot be started ({error.strerror})") from None
        files = [parse(path) for path in sorted(glob.glob(folder + "/*.trace"))]
        files = [file for file in files if file is not None]
        if not files:
            raise Failure("no rank of Weft has recorded anything: is the program an MPI program that runs on Weft?")
        trace = merge(files, [arguments.command, *arguments.arguments])
        output.write_file(arguments.output, json.dumps(trace, separators=(",", ":")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ranges = sum(event["ph"] == "X" for event in trace["traceEvents"])
    print(f"{arguments.output}: {len(files)} ranks, {ranges} ranges; open it in https://ui.perfetto.dev")
    for line in clock_lines(trace["otherData"]["clocks"]):
        print(line)
    return status if status >= 0 else 128 - status


def parse(path):
    """Returns (header, tracks) of the file of one rank; None if it is empty. `tracks`: by number, (stream or None, list
    of (begin, end, bytes, peer, tag, communicator, name)). The header has the clocks as a list of (when, offset, error),
    and the host's name."""
    with open(path, encoding="utf-8") as file:
        words = file.readline().split()
        if len(words) < 2 or words[0] != "weft-trace":
            return None
        if words[1] != str(FORMAT):
            raise Failure(f"{path} has format {words[1]}, but this version reads {FORMAT}")
        header = {name: int(value) for name, value in zip(words[2::2], words[3::2])}
        header["clocks"], header["name"] = [], os.path.basename(path).rsplit(".", 2)[0]
        tracks = {}
        for line in file:
            if line.startswith("clock "):
                if len(line.split()) == 4:
                    header["clocks"].append(tuple(map(int, line.split()[1:])))
                continue
            fields = line.rstrip("\n").split(" ", 7)
            if len(fields) < 8:
                break  # the process was killed while it wrote
            track, begin, end, *details = map(int, fields[:7])
            stream, bar, name = fields[7].rpartition("|")
            tracks.setdefault(track, (stream if bar else None, []))[1].append((begin, end, *details, name))
    return header, tracks


def merge(files, command):
    """Returns the trace. The processes of a host share its monotonic clock; those of the hosts of a job are aligned by
    messages between them, other hosts by their real time."""
    clocks, firsts = Clocks([header for header, _ in files]), first_processes(files)
    begins = [
        clocks.of(header)(min(one[0] for one in ranges)) for header, tracks in files for _, ranges in tracks.values()
    ]
    start = min(begins, default=0)
    events = []
    for header, tracks in sorted(files, key=lambda file: firsts[file[0]["job"]] + file[0]["rank"]):
        clock = clocks.of(header)
        process = firsts[header["job"]] + header["rank"]
        label = f"rank {header['rank']}" + (f" on host {header['host']}" if clocks.several() else "")
        label += f" of spawned job {list(firsts).index(header['job'])}" if process != header["rank"] else ""
        events.append(named("process_name", process, 0, label))
        order = {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
        events.append(order)
        threads = 0
        for number, (stream, ranges) in sorted(tracks.items()):
            track = number + (STREAM_TRACKS if stream else 0)
            events.append(named("thread_name", process, track, f"GPU: {stream}" if stream else f"thread {threads}"))
            threads += not stream
            events += track_events(process, track, in_time(ranges, clock, start), in_order=bool(stream))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"weft_trace": FORMAT, "command": " ".join(command), "clocks": clocks.facts()},
    }


class Clocks:
    """Functions from the monotonic clock of a rank's host to one time scale, in ns. Jobs are aligned by the real time of
    their first host, unless these are the same."""

    def __init__(self, headers):
        self.functions, self.errors = {}, {}
        of_names, references = {}, {}  # real time minus monotonic time: of a named host; of the first host of a job
        for header in headers:
            if header["host"] == 0:
                own = header["realtime"] - header["monotonic"]
                own = of_names.setdefault(header.get("name", header["job"]), own)
                references.setdefault(header["job"], own)
        for header in sorted(headers, key=lambda one: not one.get("clocks")):
            key, reference = (header["job"], header["host"]), references.get(header["job"])
            if key in self.functions:
                continue
            points, shift = [(0, 0, 0)], reference
            if header["host"] != 0:
                measured = reference is not None and header.get("clocks")
                points = sorted(measured) if measured else points
                shift = reference if measured else header["realtime"] - header["monotonic"]
                self.errors[key] = max(error for _, _, error in points) if measured else None
            self.functions[key] = functools.partial(on_time_scale, points, shift)

    def of(self, header):
        return self.functions[header["job"], header["host"]]

    def several(self):
        return len(self.functions) > len({job for job, _ in self.functions})

    def facts(self):
        """Returns the largest error of each host, in ns; null: aligned by the real time."""
        jobs = list(dict.fromkeys(job for job, _ in self.functions))
        return [{"job": jobs.index(job), "host": host, "error_ns": error} for (job, host), error in self.errors.items()]


def on_time_scale(points, shift, time):
    """Returns a time with the shift and the offset at that time: between two measurements in proportion."""
    (first, begin, _), (last, end, _) = points[0], points[-1]
    part = (min(max(time, first), last) - first) / (last - first) if last > first else 0
    return time + shift + begin + round((end - begin) * part)


def in_time(ranges, clock, start):
    return [(clock(begin) - start, clock(end) - start, *details) for begin, end, *details in ranges]


def clock_lines(clocks):
    """Returns lines about the alignment of the hosts' clocks."""
    measured = [one["error_ns"] for one in clocks if one["error_ns"] is not None]
    lines = []
    if measured:
        lines.append(
            f"clocks of {len(measured) + 1} hosts aligned by messages: errors at most {max(measured) / 1000:.3g} us"
        )
    if len(measured) < len(clocks):
        lines.append(f"{len(clocks) - len(measured)} hosts aligned by their real time, as exact as NTP or PTP keeps it")
    return lines


def first_processes(files):
    """Returns the process number of rank 0 of each job, in the order in which the jobs began: spawned jobs (numbered
    from 1) are below the first one."""
    begins, sizes, firsts = {}, {}, {}
    for header, tracks in files:
        job, shift = header["job"], header["realtime"] - header["monotonic"]
        own = min((ranges[0][0] for _, ranges in tracks.values()), default=header["monotonic"]) + shift
        begins[job] = min(begins.get(job, own), own)
        sizes[job] = header["size"]
    first = 0
    for job in sorted(begins, key=begins.get):
        firsts[job] = first
        first += sizes[job]
    return firsts


def named(what, process, track, name):
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": name}}


def track_events(process, track, ranges, *, in_order):
    """Returns the events of one track, parents before children. `in_order`: copies of a stream, which run one after the
    other: a copy that was submitted behind another begins when that one ends."""
    events, last = [], 0
    for begin, end, size, peer, tag, communicator, name in sorted(ranges, key=lambda one: (one[0], -one[1])):
        if in_order:
            begin, end = max(begin, last), max(end, last)
            last = end
        kind = "call" if name.startswith("MPI") else "copy" if in_order else "step"
        event = {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": track}
        event["ts"], event["dur"] = begin / 1000, (end - begin) / 1000
        details = {"bytes": size, "peer": peer, "tag": tag, "communicator": communicator}
        known = {key: value for key, value in details.items() if value > 0 or (value == 0 and peer >= 0)}
        if known:
            event["args"] = known
        events.append(event)
    return events


def load(path):
    """Returns the trace of a file. Raises Refusal if it is none of `weft trace`."""
    found = output.read_json(path, "a trace")
    if not isinstance(found.get("otherData"), dict) or found["otherData"].get("weft_trace") != FORMAT:
        raise Refusal(f"{path} is not a trace of `weft trace` of this version")
    return found


def names_of_processes(trace):
    """Returns {number: name}, such as "rank 1 of spawned job 1"."""
    return {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}


def outermost_calls(trace):
    """Yields the events of calls that are not inside of another call."""
    covered = {}
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or event["cat"] != "call":
            continue
        track = (event["pid"], event["tid"])
        if event["ts"] >= covered.get(track, -1):
            covered[track] = event["ts"] + event["dur"]
            yield event


def time_by_call(trace):
    """Returns {rank: {call: (number, seconds)}} of the outermost calls, and the seconds that the trace covers."""
    ranks = {}
    for event in outermost_calls(trace):
        calls = ranks.setdefault(event["pid"], {})
        number, seconds = calls.get(event["name"], (0, 0.0))
        calls[event["name"]] = (number + 1, seconds + event["dur"] / 1e6)
    ranges = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    first = min((event["ts"] for event in ranges), default=0)
    return ranks, (max((event["ts"] + event["dur"] for event in ranges), default=0) - first) / 1e6
