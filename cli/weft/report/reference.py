# SPDX-License-Identifier: BSD-3-Clause
# Reference figures: tables that others have published or that were measured with other libraries (../data/*.csv). The
# column `system` names machine and library; nothing here was measured on the machine of a report.
import csv
import os
from collections import namedtuple

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
PROGRAMS = {
    "osu_latency": "latency", "osu_bw": "bw", "osu_bibw": "bibw", "osu_alltoall": "alltoall",
    "osu_allreduce": "allreduce", "send/recv one way host-synchronised": "latency",
    "allreduce host-synchronised": "allreduce", "broadcast host-synchronised": "bcast",
    "alltoall host-synchronised (total bytes)": "alltoall", "allgather host-synchronised (total bytes)": "allgather",
    "reduce_scatter host-synchronised (total bytes)": "reduce_scatter_block",
}  # fmt: skip
# `ranks`: 0 where the source does not say; `gpu`: the model, if it is known; `far`: between nodes.
Curve = namedtuple("Curve", "label memory ranks gpu far points")


def read(name):
    with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def curves(program, gpu=""):
    """The published curves of a benchmark program; those of the same model of GPU come first."""
    found = {}
    for row in read("published-osu.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        device = "CPU" not in row["config"]
        label = "%s: %s" % (row["system"], " ".join(row["config"].split()))
        far = "intra-node" not in row["config"]
        found.setdefault((label, "D D" if device else "H H", 0, "", far), []).append(point(row))
    for row in read("measured-peers-h200.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        memory = "%s %s" % (row["memory"], row["memory"])
        key = ("%s, H200" % row["system"], memory, int(row["ranks"]), "H200", False)
        found.setdefault(key, []).append(point(row))
    made = [Curve(*key, sorted(points)) for key, points in found.items()]
    return sorted(made, key=lambda curve: not same_gpu(curve, gpu))


def same_gpu(curve, gpu):
    """Whether a curve was measured on this model: "H200" is a word of "NVIDIA H200"."""
    return bool(curve.gpu) and curve.gpu in gpu.split()


def point(row):
    """(bytes, figure), sizes and units as Weft's programs have them: bytes of one block, us or MB/s."""
    scale = 1000 if row["unit"] == "GB/s" else 1
    blocks = int(row["ranks"]) if "(total bytes)" in row["benchmark"] else 1
    return int(float(row["size_bytes"])) // blocks, float(row["value"]) * scale


def jacobi():
    return read("published-jacobi.csv")
