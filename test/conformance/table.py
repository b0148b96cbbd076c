# SPDX-License-Identifier: BSD-3-Clause
# Writes docs/conformance.md: passed tests per folder and MPI, and the reasons for failures. One section of the page is
# written by hand, and kept.
import re

import reasons
from execute import NOT_BUILT, PASSED, TIMED_OUT

TOP = """\
# The MPICH test suite

Written by `test/conformance/run --mpich PREFIX --update`, which fetches the source of Debian's `mpich` ({version}),
builds the C tests of the folders below with Weft's `mpicc` and runs the same programs on Weft and on the standard-ABI
library of MPICH 5 (Python package `mpich`). Each line of a test list is a test. Tests that differ in the copy
configured with `--enable-strictmpi` are also run. `make nightly` runs the suite on Weft and fails if a test fails that
is not listed here. "timeout": not finished in time; MPICH busy-waits when there are more ranks than cores.

The suite is older than the standard ABI: `test/conformance/mpi3.h` maps renamed functions, and `mpi3.c` also sets the
error handler of `MPI_COMM_SELF`, which since MPI 4.0 gets the errors of calls without a communicator.
"""


NOTES = "## About these runs"


def notes_of(page):
    """Lines of the section of a page that is written by hand, without empty ones at the end."""
    lines = page.splitlines()
    if NOTES not in lines:
        return []
    begin = lines.index(NOTES)
    end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    return "\n".join(lines[begin:end]).rstrip().splitlines()


def reason_for(name, table):
    """The documented reason for a test, or None."""
    return next((reason for pattern, reason in table if re.search(pattern, name + " ")), None)


def unexplained(outcomes):
    """Names of tests that failed or were not built without a documented reason."""
    tables = {NOT_BUILT: reasons.NOT_BUILT}
    return [
        name
        for name, outcome in outcomes.items()
        if outcome.verdict != PASSED and reason_for(name, tables.get(outcome.verdict, reasons.NOT_PASSED)) is None
    ]


def _row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _summary(columns):
    weft = columns["Weft"]
    rows = [_row("folder", "tests", *columns, "not built"), _row("---", *["---:"] * (len(columns) + 2))]
    folders = {}
    for name in weft:
        folder = name.split("/")[0] + (" (strict)" if name.endswith("(strict)") else "")
        folders.setdefault(folder, []).append(name)
    folders["**all**"] = list(weft)
    for folder, names in folders.items():
        passed = [sum(o[n].verdict == PASSED for n in names if n in o) for o in columns.values()]
        missing = sum(weft[n].verdict == NOT_BUILT for n in names)
        rows.append(_row(folder, len(names) - missing, *passed, missing))
    return rows


def _verdict(outcome):
    if outcome is None:
        return "not run"
    return {PASSED: "passed", TIMED_OUT: "timeout"}.get(outcome.verdict, "failed")


def _not_passed(columns):
    weft, others = columns["Weft"], [outcomes for name, outcomes in columns.items() if name != "Weft"]
    rows = [_row("test", *columns, "reason"), _row(*["---"] * (len(columns) + 2))]
    for name, outcome in weft.items():
        if outcome.verdict in (PASSED, NOT_BUILT):
            continue
        reason = reason_for(name, reasons.NOT_PASSED) or outcome.reason[:120]
        rows.append(_row(f"`{name}`", _verdict(outcome), *(_verdict(o.get(name)) for o in others), reason))
    return rows


def _passed_by_weft_alone(columns):
    lines = []
    for mpi, outcomes in columns.items():
        if mpi == "Weft":
            continue
        names = [n for n, o in columns["Weft"].items() if o.verdict == PASSED and outcomes[n].verdict != PASSED]
        lines += ["", f"## Passed by Weft, not by {mpi}", ""]
        lines += [f"- `{name}`" + (" (timeout)" if outcomes[name].verdict == TIMED_OUT else "") for name in names]
    return lines


def text(version, columns, notes):
    """Text of the page; `columns` maps names of MPIs to outcomes, Weft first; `notes`: of notes_of()."""
    lines = [TOP.format(version=version), *_summary(columns), ""]
    lines += [*notes, *([""] if notes else []), "## Not passed", "", *_not_passed(columns)]
    lines += ["", "## Not built", "", _row("test", "reason"), _row("---", "---")]
    for name, outcome in columns["Weft"].items():
        if outcome.verdict == NOT_BUILT:
            lines.append(_row(f"`{name}`", reason_for(name, reasons.NOT_BUILT) or "?"))
    return "\n".join(lines + _passed_by_weft_alone(columns)) + "\n"
