# SPDX-License-Identifier: BSD-3-Clause
# Reference values: published tables and measurements with other libraries (../data/*.csv). The column `system` names
# machine and library; no value is from the machine of a report.
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
# `ranks`: 0 if the source does not specify it; `gpu`: the model, if known; `far`: between nodes.
Curve = namedtuple("Curve", "label memory ranks gpu far points")


def read(name):
    with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def curves(program, gpu=""):
    """Returns the reference curves of a benchmark program; curves of the GPU model `gpu` come first."""
    found = {}
    for row in read("published-osu.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        device = "CPU" not in row["config"]
        label = f"{row['system']}: {' '.join(row['config'].split())}"
        far = "intra-node" not in row["config"]
        found.setdefault((label, "D D" if device else "H H", 0, "", far), []).append(point(row))
    for row in read("measured-peers-h200.csv"):
        if PROGRAMS.get(row["benchmark"]) != program:
            continue
        memory = f"{row['memory']} {row['memory']}"
        key = (f"{row['system']}, H200", memory, int(row["ranks"]), "H200", False)
        found.setdefault(key, []).append(point(row))
    result = [Curve(*key, sorted(points)) for key, points in found.items()]
    return sorted(result, key=lambda curve: not same_gpu(curve, gpu))


def same_gpu(curve, gpu):
    """Returns True if a curve was measured on this GPU model: "H200" is a word of "NVIDIA H200"."""
    return bool(curve.gpu) and curve.gpu in gpu.split()


def point(row):
    """Returns (bytes of one block, value in us or MB/s), the units of Weft's programs."""
    scale = 1000 if row["unit"] == "GB/s" else 1
    blocks = int(row["ranks"]) if "(total bytes)" in row["benchmark"] else 1
    return int(float(row["size_bytes"])) // blocks, float(row["value"]) * scale


def jacobi():
    return read("published-jacobi.csv")
