# SPDX-License-Identifier: BSD-3-Clause
# Result files: what a benchmark program wrote, and comparisons of several runs, in one form for charts and reports.
# A file of one run: {"format": 1, "program", "ranks", "library", "rows": [...], "machine"}. A comparison has "runs":
# [{"name", "library", "rows", "error"}] in place of the rows.
from weft import output
from weft.machine import system
from weft.output import Refusal

FORMAT = 1
FIELDS = {
    "latency_us": "latency (us)", "bandwidth_mb_s": "bandwidth (MB/s)", "init_ms": "MPI_Init (ms)",
    "job_ms": "whole job (ms)",
}  # fmt: skip
HIGHER_IS_BETTER = ("bandwidth_mb_s",)


def written(path, seconds):
    """What a program wrote. `seconds`: how long its job took, which is all that `hello` measures."""
    found = output.read_json(path, "a result of a benchmark program")
    if found["program"] == "hello":
        found["rows"][0]["job_ms"] = seconds * 1e3
    return found


def of_program(path, seconds):
    """The same as a result file: with the machine's description."""
    return {"format": FORMAT, **written(path, seconds), "machine": system.describe()}


def load(path):
    """A result file, checked. Refusal: it is something else, or of another version."""
    found = output.read_json(path, "a result of `weft bench --json`")
    if "program" not in found or not ("rows" in found or "runs" in found):
        raise Refusal("%s is not a result of `weft bench --json` (no program or rows)" % path)
    if found.get("format", FORMAT) != FORMAT:
        raise Refusal("%s is a result of format %s, and this version reads %d: measure again, or use the version of "
                      "Weft that wrote it" % (path, found["format"], FORMAT))  # fmt: skip
    return found


def field(found):
    """The key of the rows' figure."""
    for run in runs(found):
        for name in FIELDS:
            if run.get("rows") and name in run["rows"][0]:
                return name
    return "latency_us"


def runs(found):
    """The runs of a result, one for a file of one run."""
    if "runs" in found:
        return found["runs"]
    return [{"name": "Weft", "library": found.get("library", ""), "rows": found["rows"]}]


def kinds_of(row):
    """What tells rows of one size apart: the kinds of memory, and the datatype where one was asked for (-T, -D)."""
    kinds = row.get("kinds", "H H")
    return "%s, %s" % (kinds, row["type"]) if "type" in row else kinds


def kinds(found):
    """The memory kinds (and datatypes) of a result's rows, in their order."""
    seen = []
    for run in runs(found):
        for row in run.get("rows") or []:
            if kinds_of(row) not in seen:
                seen.append(kinds_of(row))
    return seen


def curves(found):
    """{label: [(size, figure)]}: one for each run and combination of kinds."""
    name, several = field(found), len(kinds(found)) > 1
    lines = {}
    for run in runs(found):
        for row in run.get("rows") or []:
            label = "%s, %s" % (run["name"], kinds_of(row)) if several else run["name"]
            lines.setdefault(label, []).append((row["size"], row[name]))
    return lines
