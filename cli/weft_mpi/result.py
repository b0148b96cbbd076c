# SPDX-License-Identifier: BSD-3-Clause
# Result files of single runs and comparisons, in one format for charts and reports.
# A single run: {"format": 1, "program", "ranks", "library", "rows": [...], "machine"}. A comparison has "runs":
# [{"name", "library", "rows", "error"}] instead of "rows".
from __future__ import annotations

from weft_mpi import output
from weft_mpi.machine import system
from weft_mpi.output import Refusal

FORMAT = 1
FIELDS = {
    "latency_us": "latency (us)", "bandwidth_mb_s": "bandwidth (MB/s)", "init_ms": "MPI_Init (ms)",
    "job_ms": "whole job (ms)",
}  # fmt: skip
HIGHER_IS_BETTER = ("bandwidth_mb_s",)


def written(path: str, seconds: float) -> dict:
    """Returns the result that a program wrote. `seconds`: duration of the job, the only measurement of `hello`."""
    found = output.read_json(path, "a result of a benchmark program")
    if found["program"] == "hello":
        found["rows"][0]["job_ms"] = seconds * 1e3
    return found


def of_program(path: str, seconds: float) -> dict:
    """Returns a program's result with the format number and a description of the machine."""
    return {"format": FORMAT, **written(path, seconds), "machine": system.describe()}


def load(path: str) -> dict:
    """Returns a validated result file. Raises Refusal if the file has another content or format."""
    found = output.read_json(path, "a result of `weft bench --json`")
    if "program" not in found or not ("rows" in found or "runs" in found):
        raise Refusal(f"{path} is not a result of `weft bench --json` (no program or rows)")
    if found.get("format", FORMAT) != FORMAT:
        raise Refusal(
            f"{path} is a result of format {found['format']}, but this version reads {FORMAT}: "
            "measure again, or use the version of Weft that wrote it"
        )
    problem = malformed(found)
    if problem:
        raise Refusal(f"{path} is not a result of `weft bench --json` ({problem})")
    return found


def is_number(value: object) -> bool:
    """Returns True for a number from 0 to 1e18; bool and NaN are none. Longer integers do not fit a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e18


def malformed(found: dict) -> str:
    """Returns the first value of a result that has a wrong type; "" if there is none."""
    if not isinstance(found["program"], str):
        return "program is not a string"
    if not isinstance(found.get("ranks", 0), int):
        return "ranks is not a number"
    machine = found.get("machine") or {}
    if problem := malformed_machine(machine):
        return problem
    for key, texts in (("machine.gpus", machine.get("gpus") or []), ("switches", found.get("switches") or [])):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return f"{key} is not an array of strings"
    if not isinstance(found.get("runs", []), list) or not all(isinstance(run, dict) for run in found.get("runs", [])):
        return "runs is not an array of objects"
    problem = next(filter(None, map(malformed_run, runs(found))), "")
    name = field(found) if not problem else ""
    if not problem and not all(is_number(row.get(name)) for run in runs(found) for row in run.get("rows") or []):
        return f"{name} of a row is not a number"
    return problem


def malformed_machine(machine: object) -> str:
    if not isinstance(machine, dict):
        return "machine is not an object"
    for key in ("processor", "driver", "date"):
        if not isinstance(machine.get(key) or "", str):
            return f"machine.{key} is not a string"
    for key in ("nvlink_gb_s", "load", "cores"):
        if not is_number(machine.get(key) or 0):
            return f"machine.{key} is not a number"
    return ""


def malformed_run(run: dict) -> str:
    if not isinstance(run.get("name"), str):
        return "a run has no name"
    for key in ("library", "error"):
        if not isinstance(run.get(key) or "", str):
            return f"{key} of a run is not a string"
    rows = run.get("rows") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return "rows is not an array of objects"
    for row in rows:
        if type(row.get("size")) is not int or not is_number(row["size"]):
            return "size of a row is not a number of bytes"
        if not all(isinstance(row.get(key, ""), str) for key in ("kinds", "type")):
            return "kinds or type of a row is not a string"
    return ""


def field(found: dict) -> str:
    """Returns the key of the measured value in the rows."""
    for run in runs(found):
        for name in FIELDS:
            if run.get("rows") and name in run["rows"][0]:
                return name
    return "latency_us"


def runs(found: dict) -> list[dict]:
    """Returns the runs of a result; a single run is a list of one."""
    if "runs" in found:
        return found["runs"]
    return [{"name": "Weft", "library": found.get("library", ""), "rows": found["rows"]}]


def kinds_of(row: dict) -> str:
    """Returns the label that distinguishes rows of equal size: memory kinds, and the datatype with -T or -D."""
    kinds = row.get("kinds", "H H")
    return f"{kinds}, {row['type']}" if "type" in row else kinds


def kinds(found: dict) -> list[str]:
    """Returns the memory kinds (and datatypes) of a result's rows, in order of appearance."""
    seen = []
    for run in runs(found):
        for row in run.get("rows") or []:
            if kinds_of(row) not in seen:
                seen.append(kinds_of(row))
    return seen


def curves(found: dict) -> dict[str, list[tuple[int, float]]]:
    """Returns {label: [(size, value)]} with one entry per run and combination of kinds."""
    name, several = field(found), len(kinds(found)) > 1
    lines: dict[str, list[tuple[int, float]]] = {}
    for run in runs(found):
        for row in run.get("rows") or []:
            label = f"{run['name']}, {kinds_of(row)}" if several else run["name"]
            lines.setdefault(label, []).append((row["size"], row[name]))
    return lines
