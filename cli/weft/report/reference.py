# SPDX-License-Identifier: BSD-3-Clause
# Reference figures: tables that others have published or that were measured with other libraries (../data/*.csv). The
# column `system` names machine and library; nothing here was measured on the machine of a report.
import csv
import os
from collections import namedtuple

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
PROGRAMS = {"osu_latency": "latency", "osu_bw": "bw", "osu_bibw": "bibw", "osu_alltoall": "alltoall",
            "osu_allreduce": "allreduce"}  # fmt: skip
Curve = namedtuple("Curve", "label memory ranks points")  # ranks: 0 where the source does not say


def read(name):
    with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def curves(program):
    """The published curves of a benchmark program."""
    found = {}
    for row in read("published-osu.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        device = "CPU" not in row["config"]
        key = ("%s: %s" % (row["system"], row["config"]), "D D" if device else "H H", 0)
        found.setdefault(key, []).append(point(row))
    for row in read("measured-peers-h200.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        key = ("%s, H200" % row["system"], "%s %s" % (row["memory"], row["memory"]), int(row["ranks"]))
        found.setdefault(key, []).append(point(row))
    return [Curve(*key, sorted(points)) for key, points in found.items()]


def point(row):
    """(bytes, figure in the unit of Weft's programs: us or MB/s)."""
    scale = 1000 if row["unit"] == "GB/s" else 1
    return int(float(row["size_bytes"])), float(row["value"]) * scale


def jacobi():
    return read("published-jacobi.csv")
