# SPDX-License-Identifier: BSD-3-Clause
# Sections about single jobs: a trace of `weft trace`, and samples of `weft top --json`.
import bisect
import json

from weft_mpi import charts, trace
from weft_mpi.job import samples as job_samples
from weft_mpi.output import Refusal

NAMES = {"unknown": "an unknown rank", "another job": "another job", "any rank": "any rank"}
TOP_CALLS = 8  # calls that a chart names; the others are one
LIFETIME = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize")  # not in the choice of the timeline's call
SHORTEST = 1 / 2000  # share of the timeline's length that is visible


def is_trace(path):
    """Returns True for a file that begins as a trace does."""
    return begins_with(path, '{"traceEvents"')


def is_samples(path):
    return begins_with(path, '{"seconds"')


def begins_with(path, text):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(len(text)) == text
    except OSError:
        return False  # reported by the reader of results


def trace_sections(path):
    """Returns the sections of a trace: time by call and rank, what all ranks do around the longest call, and the steps
    of the call that has the most."""
    found = trace.load(path)
    return [times_section(path, found), *timeline_sections(found), *steps_sections(found)]


def timeline_sections(found):
    """Returns a section with the calls of all ranks from before to after the longest one; none if there is no call."""
    calls = list(trace.outermost_calls(found))
    longest = max(
        (event for event in calls if event["name"] not in LIFETIME), key=lambda event: event["dur"], default=None
    )
    if longest is None or longest["dur"] <= 0:
        return []
    names = trace.names_of_processes(found)
    begin, end = longest["ts"] - longest["dur"], longest["ts"] + 2 * longest["dur"]
    ranks = sorted(names)
    inside, series = dict.fromkeys(ranks, 0.0), {}
    for event in calls:
        first, last = max(begin, event["ts"]), min(end, event["ts"] + event["dur"])
        if last - first < (end - begin) * SHORTEST:
            continue
        inside[event["pid"]] += last - first
        bar = (ranks.index(event["pid"]), (first - begin) / 1000, (last - first) / 1000)
        series.setdefault(event["name"], []).append(bar)
    series = dict(sorted(series.items(), key=lambda item: -sum(length for _, _, length in item[1])))
    latest = min(ranks, key=lambda rank: inside[rank])
    note = (
        f"The longest call is {longest['name']} of {names[longest['pid']]}, {longest['dur'] / 1000:.4g} ms. "
        f"Of all ranks, {names[latest]} is in MPI for the shortest part of this time."
    )
    title = f"Timeline around the longest call, {len(ranks)} ranks"
    labels = [names[rank] for rank in ranks]
    whole = f"{(end - begin) / 1000:.4g} ms"
    return [{
        "title": title,
        "note": [note],
        "draw": lambda axes: charts.timeline(axes, title, "ms", labels, series),
        "headings": ("rank", "in MPI", "of", ""),
        "rows": [[names[rank], f"{inside[rank] / 1000:.4g} ms", whole, ""] for rank in ranks],
    }]  # fmt: skip


def steps_sections(found):
    """Returns a section with the protocol steps and GPU copies of all ranks during the call with the most steps; none
    if no call has a step."""
    ranges = [event for event in found["traceEvents"] if event["ph"] == "X"]
    chosen = call_with_most_steps(found, ranges)
    if chosen is None:
        return []
    names = trace.names_of_processes(found)
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in found["traceEvents"]
              if event["name"] == "thread_name"}  # fmt: skip
    begin, end = chosen["ts"] - chosen["dur"] / 4, chosen["ts"] + chosen["dur"] * 5 / 4
    rows, series = {}, {}
    for event in sorted(ranges, key=lambda event: (event["pid"], event["tid"], event["cat"] != "call")):
        first, last = max(begin, event["ts"]), min(end, event["ts"] + event["dur"])
        if event["name"] in LIFETIME or last - first < (end - begin) * SHORTEST:
            continue
        rank, track = names[event["pid"]], tracks[event["pid"], event["tid"]]
        row = "{}: {}".format(rank, {"call": "calls", "step": "steps"}.get(event["cat"], track.replace("GPU: ", "")))
        bar = (rows.setdefault(row, len(rows)), first - chosen["ts"], last - first)
        series.setdefault(event["name"], []).append(bar)
    series = dict(sorted(series.items(), key=lambda item: -sum(length for _, _, length in item[1])))
    title = f"Steps during {chosen['name']} of {names[chosen['pid']]}"
    table = [[name, f"{sum(bar[2] for bar in bars):.4g} us", f"{len(bars)} in the chart", ""]
             for name, bars in series.items()]  # fmt: skip
    return [{
        "title": title,
        "note": [
            "No call has more protocol steps than this one; of several the shortest. "
            f"It took {chosen['dur']:.4g} us."
        ],
        "draw": lambda axes: charts.timeline(axes, title, "us", list(rows), series),
        "headings": ("range", "time of all ranks", "number", ""),
        "rows": table,
    }]  # fmt: skip


def call_with_most_steps(found, ranges):
    """Returns the outermost call with the most steps, of several the shortest; None if no call has a step."""
    begins = {}
    for event in ranges:
        if event["cat"] == "step":
            begins.setdefault((event["pid"], event["tid"]), []).append(event["ts"])
    chosen, best = None, (0, 0)
    for call in trace.outermost_calls(found):
        times = begins.get((call["pid"], call["tid"]), [])
        first, last = (bisect.bisect_left(times, time) for time in (call["ts"], call["ts"] + call["dur"]))
        if call["name"] not in LIFETIME and last > first and (last - first, -call["dur"]) > best:
            chosen, best = call, (last - first, -call["dur"])
    return chosen


def times_section(path, found):
    """Returns the section of time by call and rank."""
    ranks, seconds = trace.time_by_call(found)
    names = trace.names_of_processes(found)
    totals = {}
    for calls in ranks.values():
        for call, (number, time) in calls.items():
            before = totals.get(call, (0, 0.0))
            totals[call] = (before[0] + number, before[1] + time)
    longest = sorted(totals, key=lambda call: -totals[call][1])
    rows = []
    for call in longest:
        number, time = totals[call]
        slowest = max(ranks, key=lambda rank: ranks[rank].get(call, (0, 0.0))[1])
        words = f"{number} calls; longest in {names[slowest]}, {ranks[slowest][call][1]:.4g} s"
        rows.append([call, f"{time:.4g} s", words, ""])
    series = {call: [ranks[rank].get(call, (0, 0.0))[1] for rank in sorted(ranks)] for call in longest[:TOP_CALLS]}
    rest = longest[TOP_CALLS:]
    if rest:
        series["others"] = [sum(ranks[rank].get(call, (0, 0.0))[1] for call in rest) for rank in sorted(ranks)]
    title = f"Time in MPI calls, {len(ranks)} ranks"
    return {
        "title": title,
        "note": [f"{found['otherData'].get('command', path)}: {seconds:.4g} s recorded."],
        "draw": lambda axes: charts.bars(axes, title, ("rank", "seconds"), sorted(ranks), series),
        "headings": ("call", "time of all ranks", "calls", ""),
        "rows": rows,
    }


def samples_section(samples):
    """Returns the section of samples: the shares of time in MPI and in waits, and who delayed whom."""
    total = sum(sample["seconds"] for sample in samples)
    ranks = sorted({rank["rank"] for sample in samples for rank in sample["ranks"]})
    means = {
        key: [mean(samples, total, rank, lambda one, key=key: one[key]) for rank in ranks]
        for key in ("inside", "waiting", "delaying")
    }
    rows = []
    for at, rank in enumerate(ranks):
        causes = {}
        for sample in samples:
            for one in sample["ranks"]:
                for cause, share in one["waits_for"].items() if one["rank"] == rank else ():
                    causes[cause] = causes.get(cause, 0) + share * sample["seconds"]
        longest = max(causes, key=causes.get, default="")
        words = f"waits {100 * means['waiting'][at]:.0f} %"
        words += f", most for {NAMES.get(longest, f'rank {longest}')}" if longest else ""
        words += f"; the others waited for it {means['delaying'][at] * total:.4g} s in all"
        last = [one for one in samples[-1]["ranks"] if one["rank"] == rank]
        words += "".join(f"; {job_samples.stream_text(one)}" for one in (last[0].get("streams", []) if last else []))
        rows.append([f"rank {rank}", f"{100 * means['inside'][at]:.0f} % in MPI", words, ""])
    series = {
        "waiting": means["waiting"],
        "else in MPI": [max(0.0, inside - waits) for inside, waits in zip(means["inside"], means["waiting"])],
    }
    title = f"A running job, {len(ranks)} ranks"
    return {
        "title": title,
        "note": [f"{len(samples)} samples of weft top in {total:.4g} s."],
        "draw": lambda axes: charts.bars(axes, title, ("rank", "share of the time"), ranks, series),
        "headings": ("rank", "time", "waits", ""),
        "rows": rows,
    }


def load_samples(path):
    """Returns the samples in a file of `weft top --json`. Raises Refusal."""
    try:
        with open(path, encoding="utf-8") as file:
            samples = [json.loads(line) for line in file if line.strip()]
        for sample in samples:
            float(sample["seconds"])
            for rank in sample["ranks"]:
                float(rank["inside"]), float(rank["waiting"]), float(rank["delaying"]), dict(rank["waits_for"])
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{path} is not an output of `weft top --json` ({error})") from None
    return samples


def mean(samples, total, rank, value):
    """Returns the mean over time of a value of a rank."""
    found = ((one, sample["seconds"]) for sample in samples for one in sample["ranks"] if one["rank"] == rank)
    return sum(value(one) * seconds for one, seconds in found) / total if total else 0.0
