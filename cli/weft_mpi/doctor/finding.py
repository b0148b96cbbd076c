# SPDX-License-Identifier: BSD-3-Clause
# Finding: the result of one check.
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK, SLOW, BROKEN, UNCHECKED = "OK", "slow", "broken", "not checked"
ORDER = (OK, UNCHECKED, SLOW, BROKEN)  # from best to worst
STYLES = {OK: "green", SLOW: "yellow", BROKEN: "bold red", UNCHECKED: "dim"}


class Finding(NamedTuple):
    """`evidence`: the observation, in one line; `remedy`: the suggested action, empty if none is needed."""

    check: str
    status: str
    evidence: str
    remedy: str


def ok(check: str, evidence: str) -> Finding:
    return Finding(check, OK, evidence, "")


def slow(check: str, evidence: str, remedy: str) -> Finding:
    return Finding(check, SLOW, evidence, remedy)


def broken(check: str, evidence: str, remedy: str) -> Finding:
    return Finding(check, BROKEN, evidence, remedy)


def unchecked(check: str, why: str, remedy: str = "") -> Finding:
    return Finding(check, UNCHECKED, why, remedy)


def worst(findings: Iterable[Finding]) -> str:
    """Returns the worst status; OK without findings."""
    return max((finding.status for finding in findings), key=ORDER.index, default=OK)
