#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes the tables of docs/performance.md from the results in bench/results, between the marks `<!-- figures: NAME -->`
# and `<!-- end of figures -->`. With --check it writes nothing and fails if a table is stale.
import argparse
import functools
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join("docs", "performance.md")
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def load(root, name):
    """Returns a result file."""
    with open(os.path.join(root, "bench", "results", name), encoding="utf-8") as file:
        return json.load(file)


def number(value):
    """Formats with three significant digits, without an exponent."""
    if value is None:
        return "-"
    if value >= 1000:
        return "{:,.0f}".format(float("%.3g" % value)).replace(",", " ")
    return "%.3g" % value


def table(head, rows):
    """Returns a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def round_counts(found, library="Weft"):
    """Returns how many rounds of Weft a file of alternating rounds holds for its rows: "3 to 4"."""
    sets = found["figures"] if isinstance(found["figures"], list) else [found]
    counts = {len(values) for one in sets for values in one["figures"][library].values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def host(root):
    """Returns the comparison with Open MPI and MPICH in host memory."""
    found = load(root, "host.json")
    machine = found["machine"]
    libraries = list(found["libraries"])
    rows = []
    for row in found["rows"]:
        if row["ratio"] is not None:
            rows.append([row["point"], number(row["ratio"]), *(number(row[library]) for library in libraries)])
    source = "%s, %s cores, %s; medians of %s rounds ([host.json](../bench/results/host.json)).\n\n" % (
        machine["processor"], machine["cores"], found["date"], round_counts(found, "Weft, default"),
    )  # fmt: skip
    return source + table(["row", "ratio", *libraries], rows)


def peers(root, gpus):
    """Returns the comparison with Open MPI, UCX and NCCL in GPU memory, on `gpus` GPUs of a host."""
    name = "peers-%d.json" % gpus
    found = load(root, name)
    columns = list(found["libraries"])
    rows = []
    for row in found["rows"]:
        figures = [number(row["figures"].get(column)) for column in columns]
        rows.append(["%s (%s)" % (row["point"], row["unit"]), number(row["ratio"]), *figures])
    link = "[%s](../bench/results/%s)" % (name, name)
    source = "%d x %s, driver %s, %s; medians of %s rounds (%s).\n\n" % (
        found["gpus"], found["gpu"], found["driver"], found["date"], round_counts(found), link,
    )  # fmt: skip
    return source + table(["row", "ratio", *columns], rows)


def jacobi(root):
    """Returns the scaling of the solver: per case, the latest run that also has a single-GPU time."""
    found = load(root, "h200.json")
    rows = {}
    for run in found["runs"]:
        for solve in run.get("jacobi", []):
            alone = solve.get("one_gpu_s", solve.get("seconds_one_gpu"))
            together = solve.get("time_s", solve.get("seconds"))
            gpus = solve.get("gpus", solve.get("ranks"))
            if alone is None or together is None or solve["ny"] < 16384:
                continue
            grid = "%d x %d" % (solve["nx"], solve["ny"])
            efficiency = "%.1f %%" % (100 * alone / together / gpus)
            case = [solve["variant"], grid, str(gpus)]
            rows[tuple(case)] = [*case, number(alone), number(together), efficiency]
    source = "%s, %s ([h200.json](../bench/results/h200.json)).\n\n" % (found["gpu"], found["date"])
    return source + table(["variant", "grid", "GPUs", "one GPU, s", "all, s", "efficiency"], rows.values())


def beside(root):
    """Returns the comparisons of `weft bench --vs` in host memory."""
    found = load(root, "toolbox-2.json")
    machine, rows, names, rounds = found["machine"], [], [], set()
    for one in found["comparisons"]:
        if one["switches"] or any(run["error"] for run in one["runs"]):
            continue
        names, field = [run["name"] for run in one["runs"]], FIELDS[one["program"]]
        rounds.add(one["rounds"])
        for row in one["runs"][0]["rows"]:
            figures = [other[field] for run in one["runs"] for other in run["rows"] if other["size"] == row["size"]]
            best = max(figures[1:]) if field == "bandwidth_mb_s" else min(figures[1:])
            what = "%s %s, %d ranks (%s)" % (one["program"], size(row["size"]), one["ranks"], UNITS[field])
            rows.append([what, number(figures[0] / best), *map(number, figures)])
    link = "[toolbox-2.json](../bench/results/toolbox-2.json)"
    source = "%s, %d cores, %s; medians of %s rounds (%s).\n\n" % (
        machine["processor"], machine["cores"], found["date"],
        " and ".join(map(str, sorted(rounds))), link,
    )  # fmt: skip
    return source + table(["row", "ratio", *names], rows)


def size(count):
    """Formats 1024 as 1K."""
    for unit, shift in (("M", 20), ("K", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return "%d%s" % (count >> shift, unit)
    return str(count)


FIELDS = {"latency": "latency_us", "bw": "bandwidth_mb_s", "allreduce": "latency_us"}
UNITS = {"latency_us": "us", "bandwidth_mb_s": "MB/s"}
TABLES = {
    "host": host, "jacobi": jacobi, "beside": beside,
    "peers_2": functools.partial(peers, gpus=2), "peers_4": functools.partial(peers, gpus=4),
}  # fmt: skip


def rewrite(text, root):
    """Returns the page with tables from the current results. Raises KeyError if a mark names an unknown table."""
    return MARKED.sub(lambda match: match.group(1) + "\n" + TABLES[match.group(2)](root) + "\n" + match.group(3), text)


def options(description, check):
    """Returns the options of a script that renews, or with --check compares, a part of the page."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help=check)
    parser.add_argument("--root", default=ROOT)
    return parser.parse_args()


def main():
    arguments = options("Writes the tables of docs/performance.md from bench/results.", "only compare")
    path = os.path.join(arguments.root, PAGE)
    with open(path, encoding="utf-8") as file:
        committed = file.read()
    if len(MARKED.findall(committed)) != len(TABLES):
        print("%s: expected a mark for each of: %s" % (PAGE, ", ".join(TABLES)))
        return 1
    text = rewrite(committed, arguments.root)
    if arguments.check:
        if text != committed:
            print(f"{PAGE} is stale: python3 tools/docs/figures.py")
        return int(text != committed)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
