# SPDX-License-Identifier: BSD-3-Clause
# Finding: the result of one check.
from collections import namedtuple

OK, SLOW, BROKEN, UNCHECKED = "OK", "slow", "broken", "not checked"
ORDER = (OK, UNCHECKED, SLOW, BROKEN)  # from best to worst
STYLES = {OK: "green", SLOW: "yellow", BROKEN: "bold red", UNCHECKED: "dim"}


class Finding(namedtuple("Finding", "check status evidence remedy")):
    """`evidence`: the observation, in one line; `remedy`: the suggested action, empty if none is needed."""


def ok(check, evidence):
    return Finding(check, OK, evidence, "")


def slow(check, evidence, remedy):
    return Finding(check, SLOW, evidence, remedy)


def broken(check, evidence, remedy):
    return Finding(check, BROKEN, evidence, remedy)


def unchecked(check, why, remedy=""):
    return Finding(check, UNCHECKED, why, remedy)


def worst(findings):
    """Returns the worst status; OK without findings."""
    return max((finding.status for finding in findings), key=ORDER.index, default=OK)
