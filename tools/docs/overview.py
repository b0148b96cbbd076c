#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes the chart of the first page, docs/images/overview.svg, and the table of three figures in README.md and
# docs/index.md from bench/results. With --check it writes nothing and fails if one of them is stale.
import os
import re
import sys
from html import escape

import results
from figures import number, options, size
from results import load

RESULT = "peers-2.json"
CHART = os.path.join("docs", "images", "overview.svg")
PAGES = {"README.md": "", os.path.join("docs", "index.md"): "../"}  # page: way from it to the root
MARKED = re.compile(r"(<!-- figures: overview -->\n).*?(<!-- end of figures -->)", re.DOTALL)

# Rows of the chart: point of the result, label. Weft is not the fastest in each.
GROUPS = {
    "latency 8": ("message", 8), "latency 1M": ("message", 1 << 20), "allreduce 8": ("all-reduce", 8),
    "alltoall 1M": ("all-to-all", 1 << 20), "bcast 1M": ("broadcast", 1 << 20),
}  # fmt: skip
# Rows of the table: point, label, divisor and unit of its figures.
FIGURES = {
    "latency 8": ("message of 8 bytes, one way", 1, "us"),
    "window 64K": ("bandwidth of messages of 64 KiB", 1000, "GB/s"),
    "allreduce 8": ("all-reduce of 8 bytes", 1, "us"),
}
PEERS = {"UCX": ("UCX",), "Open MPI": ("Open MPI",), "NCCL": ("NCCL", "NCCL, windows")}
HIGHER_IS_BETTER = re.compile(r"MB/s|messages/s")

# Sizes in pixels. Text stays legible when a telephone shows the picture at two thirds of its size.
WIDTH, LEFT, RIGHT, BAR, GAP, HEAD, FOOT = 520, 118, 118, 15, 13, 56, 44
STYLE = """
  .card { fill: #ffffff; } text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; } .small { font-size: 11.5px; fill: #59636e; }
  .weft { fill: #0072b2; } .peer { fill: #b8c0c8; } .own { font-weight: 600; fill: #0072b2; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; } text { fill: #e6edf3; } .small { fill: #9198a1; }
    .weft { fill: #56b4e9; } .peer { fill: #4d5660; } .own { fill: #56b4e9; }
  }
"""


def medians(found, point):
    """Returns the unit of a point and [(library, median)]: Weft first, of NCCL's columns the better one."""
    row = next(row for row in found["rows"] if row["point"] == point)
    best = max if HIGHER_IS_BETTER.search(row["unit"]) else min
    values = [("Weft", row["figures"]["Weft"])]
    for peer, columns in PEERS.items():
        measured = [row["figures"][column] for column in columns if row["figures"].get(column) is not None]
        if measured:
            values.append((peer, best(measured)))
    return row["unit"], values


def text(x, y, words, kind="", anchor="start"):
    """Returns one line of text."""
    return '<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>' % (x, y, kind, anchor, escape(words))


def chart(found):
    """Returns the picture: times of operations between two GPUs, a group of bars for each operation."""
    groups = {label: medians(found, point) for point, label in GROUPS.items()}
    assert all(unit == "us" for unit, _ in groups.values()), "the axis is in microseconds"
    longest = max(value for _, values in groups.values() for _, value in values)
    scale = (WIDTH - LEFT - RIGHT) / longest
    lines, y = [], HEAD
    for (operation, count), (_, values) in groups.items():
        middle = y + BAR * len(values) // 2
        lines += [text(LEFT - 10, middle - 2, operation, anchor="end")]
        lines += [text(LEFT - 10, middle + 13, unit_of(count), "small", "end")]
        for name, value in values:
            own = name == "Weft"
            bar = '<rect x="%d" y="%d" width="%.1f" height="%d" class="%s"/>'
            lines.append(bar % (LEFT, y, value * scale, BAR - 2, "weft" if own else "peer"))
            end = round(LEFT + value * scale) + 6
            lines.append(text(end, y + 11, "%s %s us" % (name, number(value)), "own" if own else "small"))
            y += BAR
        y += GAP
    height = y + FOOT - GAP
    source = "%d x %s, driver %s" % (found["gpus"], found["gpu"], found["driver"].split(",")[0])
    versions = ", ".join(found["libraries"][name].replace(" v", " ") for name in ("UCX", "Open MPI"))
    head = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
        % (WIDTH, height, WIDTH, height),
        "<!-- Written by tools/docs/overview.py from bench/results/%s. -->" % results.name_in_results(RESULT),
        "<title>Times of MPI operations between two GPUs: Weft, UCX, Open MPI and NCCL</title>",
        "<style>%s</style>" % STYLE,
        '<rect class="card" width="%d" height="%d" rx="6"/>' % (WIDTH, height),
        text(14, 24, "Time between two GPUs of a host", "title"),
        text(14, 42, "microseconds: shorter is better", "small"),
    ]
    foot = [text(14, height - 24, source + "; medians of a run", "small")]
    foot += [text(14, height - 9, versions + " with CUDA; NCCL: plain or registered buffers", "small")]
    return "\n".join(head + lines + foot + ["</svg>\n"])


def unit_of(count):
    """Formats a size of a message: 8 B, 1 MiB."""
    short = size(count)
    return short[:-1] + " " + short[-1] + "iB" if short[-1] in "KM" else short + " B"


def table(found, folder):
    """Returns the table of three figures with a sentence about their source."""
    lines = ["| GPU to GPU | Weft | UCX | Open MPI | NCCL |", "|---|---|---|---|---|"]
    for point, (label, divisor, unit) in FIGURES.items():
        values = dict(medians(found, point)[1])
        cells = [number(values[name] / divisor) + " " + unit if name in values else "-" for name in ("Weft", *PEERS)]
        lines.append("| %s | **%s** | %s |" % (label, cells[0], " | ".join(cells[1:])))
    alone = next(row for row in found["rows"] if row["point"] == "latency 8")["figures"]["Weft, lone"]
    source = (
        "\n%s, medians of alternating rounds (%s); messages of 8 bytes follow each other,"
        "\nan isolated one takes %s us. Repeat it on your GPUs: `make gpu-bench PEERS=FOLDER`."
    )
    link = results.link(RESULT, folder)
    return (
        "\n".join(lines)
        + "\n"
        + source % (results.dated("Two %s of one host" % found["gpu"], found), link, number(alone))
        + "\n"
    )


def outputs(root):
    """Yields (path, current content, content from the results) of the chart and of each page."""
    found = load(root, RESULT)
    path = os.path.join(root, CHART)
    yield path, read(path) if os.path.exists(path) else "", chart(found)
    for page, folder in PAGES.items():
        path = os.path.join(root, page)
        current = read(path)
        if len(MARKED.findall(current)) != 1:
            raise SystemExit("%s: expected one mark <!-- figures: overview -->" % page)
        yield path, current, MARKED.sub(lambda match: match[1] + table(found, folder) + match[2], current)  # noqa: B023


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    arguments = options("Writes the chart and the figures of the first page from bench/results.", "only compare")
    stale = [(path, content) for path, current, content in outputs(arguments.root) if current != content]
    for path, content in stale:
        if arguments.check:
            print("%s is stale: python3 tools/docs/overview.py" % os.path.relpath(path, arguments.root))
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
