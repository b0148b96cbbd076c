#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes the tables of the documents' pages from the results in bench/results, between the marks `<!-- figures: NAME -->`
# and `<!-- end of figures -->`. With --check it writes nothing and fails if a table is stale, or if the files of
# bench/results/figures are not of one commit (results.py).
import argparse
import functools
import os
import re
import statistics
import sys

import results
from results import ROOT, load

PAGE = os.path.join("docs", "performance.md")
PAGES = {
    PAGE: ("sources", "host", "peers_2", "alone", "one_sided", "per_task", "jacobi", "beside", "peers_4", "earlier"),
    os.path.join("docs", "pytorch.md"): ("torch",),
}
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


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


def source(root, name, found, where, rounds):
    """Returns the line above a table: machine, date, commit, file."""
    return "%s; medians of %s rounds (%s).\n\n" % (results.dated(where, found), rounds, results.link(name, "../"))


def gpus_of(found):
    return "%d x %s, driver %s" % (found["gpus"], found["gpu"], found["driver"])


def beside_weft(found):
    """Returns the versions of the other libraries of a file: "; Open MPI v4.1.4, UCX 1.22.0, ..."."""
    others = [text for name, text in found["libraries"].items() if not name.startswith("Weft") and text]
    return "; " + ", ".join(dict.fromkeys(others))


def host(root):
    """Returns the comparison with Open MPI and MPICH in host memory."""
    found = load(root, "host.json")
    machine = found["machine"]
    libraries = list(found["libraries"])
    rows = []
    for row in found["rows"]:
        if row["ratio"] is not None:
            rows.append([row["point"], number(row["ratio"]), *(number(row.get(library)) for library in libraries)])
    where = "%s, %s cores" % (machine["processor"], machine["cores"])
    line = source(root, "host.json", found, where, round_counts(found, "Weft, default"))
    return line + table(["row", "ratio", *libraries], rows)


def peers(root, name):
    """Returns the comparison with Open MPI, UCX and NCCL in GPU memory."""
    found = load(root, name)
    columns = list(found["libraries"])
    rows = []
    for row in found["rows"]:
        figures = [number(row["figures"].get(column)) for column in columns]
        rows.append(["%s (%s)" % (row["point"], row["unit"]), number(row.get("ratio")), *figures])
    line = source(root, name, found, gpus_of(found) + beside_weft(found), round_counts(found))
    return line + table(["row", "ratio", *columns], rows) + failed(found)


def failed(found):
    """Returns a sentence that names the runs of Weft that failed, or nothing."""
    jobs = found["failures"].get("Weft", {})
    return "\nNo figure, since the run of Weft failed: %s.\n" % ", ".join(sorted(jobs)) if jobs else ""


def per_task(root):
    """Returns messages and collectives of ranks that see one GPU each, beside ranks that see all."""
    name, column = "per-task-2.json", "Weft, per task"
    found = load(root, name)
    rows = []
    for row in found["rows"]:
        every, one = row["figures"].get("Weft"), row["figures"].get(column)
        if every and one:
            more = row["unit"] != "us"
            rows.append(["%s (%s)" % (row["point"], row["unit"]), number(every / one if more else one / every),
                         number(every), number(one)])  # fmt: skip
    line = source(root, name, found, gpus_of(found), round_counts(found))
    return line + table(["row", "time, per task over all", "all visible", "per task"], rows)


def required(root, name):
    """Returns the figures of Weft alone with their required figures, of bench/bars.py and of what is built on it."""
    found = load(root, name)
    rows = []
    for row in found["rows"]:
        bar = "%s %s" % (number(row["bar"]), "met" if row["met"] else "missed") if "bar" in row else "-"
        rows.append([row["name"], number(row["value"]), row.get("unit", "-"), bar])
    rounds = most([len(row["values"]) for row in found["rows"]])
    return source(root, name, found, gpus_of(found), rounds) + table(["row", "figure", "unit", "required"], rows)


def most(counts):
    """Formats the smallest and the largest count: "3", "1 to 3"."""
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def solves(found):
    """Yields (variant, grid, GPUs, seconds on one GPU, seconds) of bench/jacobi.py's file, whose solve on one GPU is common to
    all variants, and of the earlier file."""
    if "runs" in found:
        for run in found["runs"]:
            for solve in run.get("jacobi", []):
                alone = solve.get("one_gpu_s", solve.get("seconds_one_gpu"))
                together = solve.get("time_s", solve.get("seconds"))
                if alone is not None and together is not None and solve["ny"] >= 16384:
                    grid = "%d x %d" % (solve["nx"], solve["ny"])
                    yield solve["variant"], grid, solve.get("gpus", solve.get("ranks")), alone, together
        return
    values = {tuple(row["name"].split(", ")): row["value"] for row in found["rows"]}
    alone = {grid: value for (grid, gpus, _), value in values.items() if gpus == "1 GPU"}
    for (grid, gpus, variant), value in values.items():
        if gpus != "1 GPU":
            yield variant, grid, int(gpus.split()[0]), alone.get(grid), value


def jacobi(root):
    """Returns the scaling of the solver: the latest run of each case."""
    name = "jacobi-2.json"
    found = load(root, name)
    rows = {}
    for variant, grid, gpus, alone, together in solves(found):
        efficiency = "%.1f %%" % (100 * alone / together / gpus) if alone else "-"
        rows[variant, grid, gpus] = [variant, grid, str(gpus), number(alone), number(together), efficiency]
    line = "%s (%s).\n\n" % (results.dated(found["gpu"], found), results.link(name, "../"))
    return line + table(["variant", "grid", "GPUs", "one GPU, s", "all, s", "efficiency"], rows.values())


def beside(root):
    """Returns the comparisons of `weft bench --vs` in host memory."""
    name = "beside.json"
    found = load(root, name)
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
    where = "%s, %d cores" % (machine["processor"], machine["cores"])
    return source(root, name, found, where, " and ".join(map(str, sorted(rounds)))) + table(
        ["row", "ratio", *names], rows
    )


def torch_points(found):
    """Returns {point: {column: rounds}} of bench/torch_collectives.py's file, or of the earlier file, without operations back to
    back, which the page leaves out."""
    if "figures" in found:
        points = {}
        for column, values in found["figures"].items():
            for point, rounds in values.items():
                if "back to back" not in point:
                    points.setdefault(point, {})[column] = rounds
        return points
    columns = {"weft": "Weft", "nccl": "NCCL", "fake": "no communication"}
    points = {}
    for point, values in found["torch"].items():
        words = re.sub(r", synchronized$", "", point)
        words = re.sub(r"\b(\d+) B$", lambda count: "%s B" % size(int(count[1])), words)
        words = re.sub(r"(\d+)([KM]) B$", r"\1 \2iB", words)
        words = {"issue all_reduce": "issuing all_reduce 8 B", "ddp step": "step of DistributedDataParallel"}.get(
            words, words
        )
        if "back to back" not in words:
            points[words] = {columns[name]: rounds for name, rounds in values.items()}
    return points


TORCH_ROWS = re.compile(r"(all_reduce|all_gather|reduce_scatter|all_to_all) |issuing |\d+ all_reduces? |step of ")


def torch(root):
    """Returns operations of torch.distributed beside NCCL."""
    name = "torch-2.json"
    found = load(root, name)
    columns, rows, counts = ("Weft", "NCCL", "no communication"), [], []
    for point, values in torch_points(found).items():
        if not TORCH_ROWS.match(point) or "NCCL" not in values:
            continue
        medians = {column: statistics.median(rounds) for column, rounds in values.items()}
        counts.append(len(values["Weft"]))
        ratio = medians["Weft"] / medians["NCCL"]
        rows.append([point, number(ratio), *(number(medians.get(column)) for column in columns)])
    version = found.get("torch version") or found["torch"]
    where = "%d x %s, torch %s, NCCL %s, NVLS off" % (found["gpus"], found["gpu"], version, found["nccl"])
    return source(root, name, found, where, most(counts)) + table(["row", "ratio to NCCL", *columns], rows)


def size(count):
    """Formats 1024 as 1K."""
    for unit, shift in (("M", 20), ("K", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return "%d%s" % (count >> shift, unit)
    return str(count)


FIELDS = {"latency": "latency_us", "bw": "bandwidth_mb_s", "allreduce": "latency_us"}
UNITS = {"latency_us": "us", "bandwidth_mb_s": "MB/s"}
TABLES = {
    "host": host, "jacobi": jacobi, "beside": beside, "per_task": per_task, "torch": torch, "earlier": results.earlier,
    "sources": results.sources,
    "peers_2": functools.partial(peers, name="peers-2.json"), "peers_4": functools.partial(peers, name="peers-4.json"),
    "alone": functools.partial(required, name="bars-2.json"),
    "one_sided": functools.partial(required, name="one-sided-2.json"),
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


def complaints(root, pages):
    """Returns what is wrong with the marks of pages {path: (text, names of tables)} and with the result files."""
    found = results.complaints(root)
    for path, (text, names) in pages.items():
        if sorted(mark[1] for mark in MARKED.findall(text)) != sorted(names):
            found.append("%s: expected a mark for each of: %s" % (path, ", ".join(names)))
    return found


def main():
    arguments = options("Writes the tables of the documents from bench/results.", "only compare")
    pages = {}
    for path, names in PAGES.items():
        with open(os.path.join(arguments.root, path), encoding="utf-8") as file:
            pages[path] = file.read(), names
    wrong = complaints(arguments.root, pages)
    for path, (committed, _) in pages.items() if not wrong else ():
        text = rewrite(committed, arguments.root)
        if text != committed and arguments.check:
            wrong.append(f"{path} is stale: python3 tools/docs/figures.py")
        elif text != committed:
            with open(os.path.join(arguments.root, path), "w", encoding="utf-8") as file:
                file.write(text)
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
