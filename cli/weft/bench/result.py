# SPDX-License-Identifier: BSD-3-Clause
# Result files of single runs and comparisons, in one format for charts and reports.
# A single run: {"format": 1, "program", "ranks", "library", "rows": [...], "machine"}. A comparison has "runs":
# [{"name", "library", "rows", "error"}] instead of "rows".
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
    """Returns the result that a program wrote. `seconds`: duration of the job, the only measurement of `hello`."""
    found = output.read_json(path, "a result of a benchmark program")
    if found["program"] == "hello":
        found["rows"][0]["job_ms"] = seconds * 1e3
    return found


def of_program(path, seconds):
    """Returns a program's result with the format number and a description of the machine."""
    return {"format": FORMAT, **written(path, seconds), "machine": system.describe()}


def load(path):
    """Returns a validated result file. Raises Refusal if the file has another content or format."""
    found = output.read_json(path, "a result of `weft bench --json`")
    if "program" not in found or not ("rows" in found or "runs" in found):
        raise Refusal("%s is not a result of `weft bench --json` (no program or rows)" % path)
    if found.get("format", FORMAT) != FORMAT:
        raise Refusal("%s is a result of format %s, but this version reads %d: measure again, or use the version "
                      "of Weft that wrote it" % (path, found["format"], FORMAT))  # fmt: skip
    return found


def field(found):
    """Returns the key of the measured value in the rows."""
    for run in runs(found):
        for name in FIELDS:
            if run.get("rows") and name in run["rows"][0]:
                return name
    return "latency_us"


def runs(found):
    """Returns the runs of a result; a single run is a list of one."""
    if "runs" in found:
        return found["runs"]
    return [{"name": "Weft", "library": found.get("library", ""), "rows": found["rows"]}]


def kinds_of(row):
    """Returns the label that distinguishes rows of equal size: memory kinds, and the datatype with -T or -D."""
    kinds = row.get("kinds", "H H")
    return "%s, %s" % (kinds, row["type"]) if "type" in row else kinds


def kinds(found):
    """Returns the memory kinds (and datatypes) of a result's rows, in order of appearance."""
    seen = []
    for run in runs(found):
        for row in run.get("rows") or []:
            if kinds_of(row) not in seen:
                seen.append(kinds_of(row))
    return seen


def curves(found):
    """Returns {label: [(size, value)]} with one entry per run and combination of kinds."""
    name, several = field(found), len(kinds(found)) > 1
    lines = {}
    for run in runs(found):
        for row in run.get("rows") or []:
            label = "%s, %s" % (run["name"], kinds_of(row)) if several else run["name"]
            lines.setdefault(label, []).append((row["size"], row[name]))
    return lines
