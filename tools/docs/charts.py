#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Draws the charts of docs/performance.md from the results in bench/results into docs/images/charts. Needs matplotlib.
# Each chart records a digest of its data and of this file; with --check nothing is drawn, and a chart with another
# digest, or missing in the page, is an error.
import functools
import hashlib
import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from math import log
from statistics import median, quantiles

import results
from figures import PAGE, ROOT, number, options
from results import load

CHARTS = os.path.join("docs", "images", "charts")
DIGEST = re.compile(r"weft-chart:([0-9a-f]{64})")
# Two colours and two shapes that remain distinct in grey and for colour-blind readers (Okabe and Ito).
WEFT, PEER = "#0072b2", "#d55e00"
LARGER = {"MB/s": (1e3, "GB/s"), "/s": (1e6, "million/s"), "us": (1e3, "ms")}


@dataclass
class Mark:
    """One comparison: ratios of Weft's and of the peer's rounds to the median of the better peer."""

    ratio: float
    weft: list
    peer: list
    note: str
    hollow: bool = False


@dataclass
class Row:
    """One line of a chart."""

    label: str
    marks: list


@dataclass
class Chart:
    """One picture: `peers` names what 1 stands for, `key` explains filled and hollow marks."""

    title: str
    peers: str
    source: str
    rows: list
    key: tuple = ()

    def digest(self):
        """Returns the digest that a drawing of this chart records."""
        with open(os.path.abspath(__file__), encoding="utf-8") as file:
            text = file.read() + json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def interval(values):
    """Returns the 10 and 90 percent points of rounds; None for less than three of them."""
    if len(values) < 3:
        return None
    cut = quantiles(values, n=10, method="inclusive")
    return cut[0], cut[-1]


def compare(weft, peers, unit, more_is_better=False, hollow=False):
    """Returns the mark for rounds of Weft and of several peers. Ratios are of times: rates are inverted."""
    best = (max if more_is_better else min)(peers, key=median)
    middle = median(best)

    def relative(values):
        return sorted(round(middle / value if more_is_better else value / middle, 4) for value in values)

    ratio = middle / median(weft) if more_is_better else median(weft) / middle
    return Mark(round(ratio, 4), relative(weft), relative(best), amount(median(weft), unit), hollow)


def amount(value, unit):
    """Formats a figure with its unit; large ones with a larger unit."""
    if unit in LARGER and value >= 1000:
        return "%s %s" % (number(value / LARGER[unit][0]), LARGER[unit][1])
    return "%s %s" % (number(value), unit)


def spread(chart_rows):
    """Returns the words for the number of rounds behind the marks."""
    counts = sorted({len(mark.weft) for row in chart_rows for mark in row.marks})
    if counts == [1]:
        return "medians only: the file holds no rounds"
    shown = sorted({count for count in counts if count > 2})
    words = f"bars: 10 to 90 % of {' to '.join(map(str, sorted({shown[0], shown[-1]})))} rounds"
    return words + (", without: one figure" if counts[0] < 3 else "")


def named(point):
    """Returns a reader's words for the name of a row in a result file."""
    point = point.replace("_8", " 8 B").replace("_64k", " 64 KiB").replace("bcast_turns", "bcast by turns")
    point = re.sub(r"(?<![\d.])(\d+)([KM])\b", r"\1 \2iB", point)
    point = re.sub(
        r"(latency|rate|allreduce|alltoall|allgather|bcast|reduce_scatter|flush|fence|pscw) 8$", r"\1 8 B", point
    )
    return point.replace("_", " ").replace("reduce scatter", "reduce_scatter")


def host_rows(found, wanted):
    """Returns rows of bench/host.py's file; `wanted` maps a point to a label, or to None to leave it out."""
    rows, figures = [], found["figures"]
    for row in found["rows"]:
        point = row["point"]
        label = wanted(point)
        if label is None or row["ratio"] is None:
            continue
        faster = "rate" in point or "bandwidth" in point
        unit = "/s" if "rate" in point else "MB/s" if faster else "ms" if point.endswith(", ms") else "us"
        peers = [values[point] for name, values in figures.items() if not name.startswith("Weft") and point in values]
        rows.append(Row(label, [compare(figures["Weft, default"][point], peers, unit, faster)]))
    return rows


def dated(words, found):
    """Returns words with the date of a file and its commit, if the file names one."""
    return results.dated(words, found).replace("`", "")


def machine(found):
    """Returns the machine, its load, date and commit of bench/host.py's file."""
    of = found["machine"]
    return dated("%s, %d cores, load %.1f" % (of["processor"], of["cores"], of["load"]), found)


COLLECTIVE = re.compile(r"^(barrier|i?allreduce|allgather|alltoall|i?bcast|reduce)")


def host_messages(root):
    """Returns messages and datatypes in host memory."""
    found = load(root, "host.json")
    rows = host_rows(found, lambda point: None if COLLECTIVE.match(point) or "start" in point else named(point))
    return Chart("Host messages, 2 ranks", "the better of Open MPI and MPICH", machine(found), rows)


def host_collectives(root):
    """Returns collectives of two and of eight ranks in host memory."""
    found = load(root, "host.json")
    rows = host_rows(found, lambda point: named(point) if COLLECTIVE.match(point) else None)
    merged = {}
    for row in rows:
        label, eight, _ = row.label.partition(", 8 ranks")
        row.marks[0].hollow = bool(eight)
        merged.setdefault(label, Row(label, [])).marks += row.marks
    key = ("2 ranks", "8 ranks on 2 cores")
    return Chart(
        "Collectives, host memory", "the better of Open MPI and MPICH", machine(found), list(merged.values()), key
    )


def rounds_of(figures, column, point):
    """Returns the rounds of a row of bench/peers.py, which lie in one set or in several ones."""
    sets = figures if isinstance(figures, list) else [{"figures": figures}]
    return [value for one in sets for value in one["figures"].get(column, {}).get(point, [])]


def device_rows(found, wanted):
    """Returns rows of bench/peers.py whose name satisfies `wanted`."""
    rows = []
    for row in found["rows"]:
        if not wanted(row["point"]) or "Weft" not in row["figures"]:  # its run failed: the table says so
            continue
        rounds = {name: rounds_of(found["figures"], name, row["point"]) for name in row["figures"]}
        peers = [values for name, values in rounds.items() if not name.startswith("Weft") and values]
        unit = row["unit"].replace("messages", "")
        rows.append(Row(named(row["point"]), [compare(rounds["Weft"], peers, unit, row["unit"] != "us")]))
    return rows


def gpus(found):
    """Returns the machine, date and commit of a file of bench/peers.py or bench/one_sided.py."""
    return dated("%d x %s, %s" % (found["gpus"], found["gpu"], found["driver"].split(", ")[-1]), found)


def device_messages(root):
    """Returns messages between two GPUs."""
    found = load(root, "peers-2.json")
    rows = device_rows(found, lambda point: not COLLECTIVE.match(point))
    return Chart("Messages between GPUs", "the best of Open MPI, UCX and NCCL", gpus(found), rows)


def device_collectives(root, count):
    """Returns collectives of two or of four GPUs."""
    found = load(root, "peers-%d.json" % count)
    return Chart(
        "Collectives of %d GPUs" % count, "the best of Open MPI and NCCL", gpus(found),
        device_rows(found, COLLECTIVE.match),
    )  # fmt: skip


def host_windows(root):
    """Returns one-sided communication in host memory."""
    found = load(root, "one-sided-host.json")
    merged = {}
    for row in host_rows(found, lambda point: point):
        match = re.match(r"(.*?)[ _](create|allocate)(?: (.*))?$", row.label)
        label = named(" ".join(filter(None, (match[1], match[3])))).replace("window", "make the window")
        row.marks[0].hollow = match[2] == "create"
        marks = merged.setdefault(label, Row(label, [])).marks
        marks[:] = sorted(marks + row.marks, key=lambda mark: mark.hollow)
    key = ("MPI_Win_allocate", "MPI_Win_create")
    return Chart(
        "One-sided, host memory", "the better of Open MPI and MPICH", machine(found), list(merged.values()), key
    )


def device_windows(root):
    """Returns one-sided communication between two GPUs beside NVSHMEM and plain copies."""
    found = load(root, "one-sided-2.json")
    values = {row["name"]: row["values"] for row in found["rows"]}
    rows = []
    for name, rounds in values.items():
        match = re.match(r"NVSHMEM kernel: put_signal to wait, (.*)", name)
        if match:
            own = values["kernel: put_notify to wait_notify, " + match[1]]
            rows.append(Row("put + signal, " + match[1].replace("a block", "1 block"), [compare(own, [rounds], "us")]))
    pair = ("puts of 64 MiB", "copies of 64 MiB")
    rows.append(Row("puts of 64 MiB (1: plain copies)", [compare(values[pair[0]], [values[pair[1]]], "GB/s", True)]))
    return Chart("One-sided from kernels, GPU memory", "NVSHMEM", gpus(found), rows)


def files(root):
    """Returns accesses of files from two and from four ranks."""
    found = load(root, "files.json")
    short = {
        "open (write) and close (read)": "open, close", "100000 records of 100 B": "100 B records",
        "half of it, 64 KiB blocks of memory": "half, 64 KiB blocks", "blocks of ": "", "KiB,": "KiB blocks,",
        "MiB,": "MiB blocks,", ", collective": ", coll.", ", independent": ", ind.",
    }  # fmt: skip
    rows, group = [], ""
    for label, libraries in file_rows(found).items():
        ranks, label = label.split(": ")
        if ranks != group:
            rows.append(Row(ranks, []))
            group = ranks
        marks = []
        for what in ("write", "read"):
            peers = [times[what] for name, times in libraries.items() if name != "Weft"]
            marks.append(compare(libraries["Weft"][what], peers, "ms", hollow=what == "read"))
        for words, fewer in short.items():
            label = label.replace(words, fewer)
        rows.append(Row(label, marks))
    where = found["machine"]
    if isinstance(where, dict):
        where = "%s, %d cores, /dev/shm, 1 GiB" % (where["processor"], where["cores"])
    else:
        where = "AMD EPYC, 2 cores, no other work, /dev/shm, 1 GiB"
    return Chart("Files", "the better of MPICH and Open MPI", dated(where, found), rows, ("write, open", "read, close"))


def file_rows(found):
    """Returns {row: {library: {"write" or "read": [ms]}}} of bench/io.c in comparisons by `weft bench`, or of the earlier
    file, which holds medians."""
    if "rows" in found:
        names = {"weft": "Weft"}
        return {
            row: {
                names.get(name, name): {what: [ms] for what, ms in times.items()} for name, times in libraries.items()
            }
            for row, libraries in found["rows"].items()
        }
    rows = {}
    for one in found["comparisons"]:
        for run in one["runs"]:
            for row in run["rows"]:
                label, _, what = row["type"].rpartition(", ")
                times = rows.setdefault("%d ranks: %s" % (one["ranks"], label), {}).setdefault(run["name"], {})
                times[what] = [row["latency_us"] / 1e3]
    return rows


def start(root):
    """Returns the start of a job and of processes, and what follows the failure of a rank."""
    found, spawned, failed = load(root, "host.json"), load(root, "spawn.json"), load(root, "fault-tolerance.json")
    rows = host_rows(found, lambda point: "mpiexec, 2 ranks" if point.startswith("start and end") else None)
    for row, label in zip(spawned["rows"], ("spawn to 1st message", "disconnect")):
        rows.append(Row(label, [compare([row["Weft"]], [[row["Open MPI"]], [row["MPICH"]]], "ms")]))
    for row in failed["rows"]:
        rounds = [failed["figures"][name][row["row"]] for name in ("Weft", "Open MPI")]
        label = row["row"].replace("detection", "detect a failed rank")
        rows.append(Row(label, [compare(rounds[0], [rounds[1]], row["unit"])]))
    parts = ("start: " + machine(found), "spawn: " + machine(spawned), "failures, 16 ranks: " + machine(failed))
    return Chart("Start-up, spawn, failures", "the better of Open MPI and MPICH", "\n".join(parts), rows)


DRAWN = {
    "host-messages": host_messages, "host-collectives": host_collectives, "device-messages": device_messages,
    "device-collectives": functools.partial(device_collectives, count=2),
    "device-collectives-4": functools.partial(device_collectives, count=4),
    "host-one-sided": host_windows, "device-one-sided": device_windows, "files": files, "start-up": start,
}  # fmt: skip
TICKS = (1, 0.1, 10, 0.5, 2, 0.2, 5, 0.01, 0.02, 0.05)  # the first ones are drawn if not all fit
TICK_DISTANCE = 20  # points
# Sizes in points: the picture is about as wide as the screen of a telephone, so that text there is as large as here.
WIDTH, LINE, HEAD, FOOT = 320, 15, 24, 62
TEXT = 8.5


def text_width(text, bold=False):
    """Returns the width of a text in points, in the widest font that browsers use."""
    from matplotlib.textpath import TextPath

    if not text:
        return 0
    return TextPath((0, 0), text, size=TEXT, prop={"weight": "bold" if bold else "normal"}).get_extents().width


def draw(chart, path):
    """Writes the picture of a chart as SVG, with text as text."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings = {"svg.fonttype": "none", "svg.hashsalt": chart.title, "font.size": TEXT, "font.family": "sans-serif"}
    notes = [notes_of(row) for row in chart.rows]
    columns = [max(text_width(note[column], column == 0) for note in notes) + 6 for column in (0, 1)]
    left = max(text_width(row.label) for row in chart.rows) + 7
    caption = [*chart.source.split("\n"), spread(chart.rows)]
    foot = FOOT + 11 * len(caption)
    height = HEAD + 12 + LINE * len(chart.rows) + foot
    with matplotlib.rc_context(settings):
        figure = pyplot.figure(figsize=(WIDTH / 72, height / 72))
        bottom, width = foot / height, (WIDTH - left - sum(columns) - 8) / WIDTH
        axes = figure.add_axes((left / WIDTH, bottom, width, LINE * len(chart.rows) / height))
        draw_marks(axes, chart, width * WIDTH)
        label_rows(axes, chart, notes, columns, width * WIDTH)
        figure.text(4 / WIDTH, 1 - 14 / height, chart.title, fontsize=TEXT + 2.5, fontweight="bold")
        lines = legend(chart) + [(line, "#555555", TEXT - 0.5) for line in caption]
        for index, (line, colour, points) in enumerate(lines):
            figure.text(4 / WIDTH, (foot - 36 - 11 * index) / height, line, color=colour, fontsize=points)
        metadata = {"Date": None, "Creator": None, "Title": chart.title, "Description": "weft-chart:" + chart.digest()}
        figure.savefig(path, metadata=metadata)
        pyplot.close(figure)


def legend(chart):
    """Returns the lines that explain the marks: text, colour, size."""
    weft = "● Weft, %s   ○ Weft, %s" % chart.key if chart.key else "● Weft"
    return [
        (weft, WEFT, TEXT),
        ("| 1: %s" % chart.peers, PEER, TEXT),
        ("left of 1: Weft takes less time", "black", TEXT),
    ]


def notes_of(row):
    """Returns the texts beside a line: ratios, and Weft's figures."""
    figures = [mark.note for mark in row.marks]
    if len(figures) == 2 and figures[0].split(" ")[-1] == figures[1].split(" ")[-1]:
        figures[0] = figures[0].rpartition(" ")[0]
    return " ".join("%.2f" % mark.ratio for mark in row.marks), ", ".join(figures)


def draw_marks(axes, chart, width):
    """Draws each line's marks: the peer around 1, and Weft, with their spread."""
    for place, row in enumerate(chart.rows):
        shifts = (0,) if len(row.marks) == 1 else (-0.17, 0.17)
        for shift, mark in zip(shifts, row.marks):
            for values, colour in ((mark.peer, PEER), (mark.weft, WEFT)):
                ends = interval(values)
                if ends:
                    axes.plot(ends, (place + shift,) * 2, color=colour, linewidth=3, alpha=0.4, solid_capstyle="butt")
            face = "white" if mark.hollow else WEFT
            axes.plot(mark.ratio, place + shift, "o", markersize=4.5, color=WEFT, markerfacecolor=face, zorder=4)
        if row.marks:
            axes.plot((1, 1), (place - 0.35, place + 0.35), color=PEER, linewidth=2, zorder=3)
    marks = [mark for row in chart.rows for mark in row.marks]
    ends = [end for mark in marks for values in (mark.weft, mark.peer) for end in interval(values) or ()]
    ratios = [mark.ratio for mark in marks] + ends
    axes.set_xscale("log")
    low, high = min([*ratios, 0.5]) / 1.25, max([*ratios, 1.4]) * 1.25
    axes.set_xlim(low, high)
    ticks = []
    for tick in TICKS:
        apart = [abs(log(tick / other)) / log(high / low) * width for other in ticks]
        if low < tick < high and min([*apart, width]) >= TICK_DISTANCE:
            ticks.append(tick)
    axes.set_xticks(ticks, ["%g" % tick for tick in ticks])
    axes.minorticks_off()


def label_rows(axes, chart, notes, columns, width):
    """Writes labels, ratios and figures beside the lines, and the axis' title."""
    axes.set_ylim(len(chart.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(chart.rows)), [row.label for row in chart.rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("time of Weft / time of the peer", labelpad=1)
    places = [1 + columns[0] / width, 1 + sum(columns) / width]
    for row, texts in enumerate([("ratio", "Weft"), *notes]):
        for text, place, weight in zip(texts, places, ("bold", "normal")):
            axes.text(
                place, row - 1, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontweight=weight
            )


def stale(root, folder):
    """Returns complaints about charts that differ from the results, are missing, or are not shown."""
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        page = file.read()
    for name, make in DRAWN.items():
        path = os.path.join(folder, name + ".svg")
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
        found = DIGEST.search(text)
        if not found or found[1] != make(root).digest():
            yield "%s.svg is stale: python3 tools/docs/charts.py" % name
        if "](images/charts/%s.svg)" % name not in page:
            yield "%s does not show %s.svg" % (PAGE, name)
    for name in os.listdir(folder):
        if name.removesuffix(".svg") not in DRAWN:
            yield "%s is not drawn by tools/docs/charts.py" % name


def main():
    arguments = options("Draws the charts of docs/performance.md from bench/results.", "only compare digests")
    folder = os.path.join(arguments.root, CHARTS)
    if arguments.check:
        complaints = list(stale(arguments.root, folder))
        print("\n".join(complaints))
        return int(bool(complaints))
    sys.path.append(os.path.join(ROOT, "build", "tools", "python"))  # make test downloads matplotlib there
    os.makedirs(folder, exist_ok=True)
    for name, make in DRAWN.items():
        draw(make(arguments.root), os.path.join(folder, name + ".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
