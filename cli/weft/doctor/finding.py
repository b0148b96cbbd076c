# SPDX-License-Identifier: BSD-3-Clause
# Finding: what one check found out.
from collections import namedtuple

OK, SLOW, BROKEN, UNCHECKED = "OK", "slow", "broken", "not checked"
ORDER = (OK, UNCHECKED, SLOW, BROKEN)  # from good to bad
STYLES = {OK: "green", SLOW: "yellow", BROKEN: "bold red", UNCHECKED: "dim"}


class Finding(namedtuple("Finding", "check status evidence remedy")):
    """`evidence`: what was seen, in one line; `remedy`: what to do, empty where nothing is to be done."""


def ok(check, evidence):
    return Finding(check, OK, evidence, "")


def slow(check, evidence, remedy):
    return Finding(check, SLOW, evidence, remedy)


def broken(check, evidence, remedy):
    return Finding(check, BROKEN, evidence, remedy)


def unchecked(check, why, remedy=""):
    return Finding(check, UNCHECKED, why, remedy)


def worst(findings):
    """The worst status; OK of nothing."""
    return max((finding.status for finding in findings), key=ORDER.index, default=OK)
