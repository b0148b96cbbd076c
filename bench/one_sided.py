#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Measures one-sided communication between GPUs and compares with required figures: windows by calls of the host, in
# streams and graphs, by kernels (beside NVSHMEM if given), and the variants of the Jacobi solver. Plain copies and
# barriers of the same run stand beside them. Exit status as that of bars.py.
import os
import sys

import bars
from bars import Site
from peer_programs import Failure

# Required figures between two GPUs: name -> (figure, whether higher is better, unit).
BARS = {
    "put 8 B": (4.5, False, "us"), "put 8 B, lone": (7.5, False, "us"), "get 8 B": (5, False, "us"),
    "fetch_and_op": (5, False, "us"), "compare_and_swap": (5, False, "us"),
    "puts of 64 KiB": (105, True, "GB/s"), "puts of 1 MiB": (315, True, "GB/s"), "puts of 64 MiB": (389, True, "GB/s"),
    "puts of 64 MiB over a plain copy": (0.97, True, "ratio"),
    "accumulate 1 MiB": (14, False, "us"), "get_accumulate 64 KiB": (12, False, "us"),
    "fence less 1.2 barriers": (1, False, "us"), "notification over store and flag": (1.5, False, "ratio"),
    "put 1 MiB by a block over NVSHMEM": (1, False, "ratio"),
    "put 1 MiB by 16 blocks over NVSHMEM": (1, False, "ratio"),
    "enqueued put 8 B, lone": (7.5, False, "us"), "enqueued put 8 B": (4.5, False, "us"),
    "put 8 B in a graph": (3, False, "us"),
    "Jacobi 16384 x 128 device": (0.12, False, "s"),
    "Jacobi 16384 x 128 window over overlap": (1, False, "ratio"),
    "Jacobi 16384 x 128 device over overlap": (1, False, "ratio"),
    "Jacobi 16384 x 32768 window over overlap": (1, False, "ratio"),
    "Jacobi 16384 x 32768 device over overlap": (1, False, "ratio"),
}  # fmt: skip
VARIANTS = ("overlap", "window", "device")
PUT_SIZES = {"puts of 64 KiB": "64K", "puts of 1 MiB": "1M", "puts of 64 MiB": "64M"}


class Windows(Site):
    nvshmem = os.environ.get("NVSHMEM_PUT")  # the program nvshmem_put.cu

    def figure(self, name, program, size="8", settings=()):
        return self.point(name, program, size=size, settings=settings)

    def bandwidth(self, name, size):
        """Returns {name: GB/s} of windows of puts."""
        return {name: next(iter(self.point(name, "put_bw", size=size, field="bandwidth_mb_s").values())) / 1e3}


def host_calls(site):
    lone = {"WEFT_GPU_RESIDENT_KERNEL": "off"}
    figures = {**site.figure("put 8 B", "put_latency"), **site.figure("put 8 B, lone", "put_latency", settings=lone)}
    for name, program, size in (
        ("get 8 B", "get_latency", "8"), ("fetch_and_op", "fop_latency", "8"), ("compare_and_swap", "cas_latency", "8"),
        ("accumulate 8 B", "acc_latency", "8"), ("accumulate 64 KiB", "acc_latency", "64K"),
        ("accumulate 1 MiB", "acc_latency", "1M"),
        ("get_accumulate 64 KiB", "get_acc_latency", "64K"), ("put 1 MiB", "put_latency", "1M"),
    ):  # fmt: skip
        figures.update(site.figure(name, program, size))
    for name, size in PUT_SIZES.items():
        figures.update(site.bandwidth(name, size))
    return figures


def table(out, largest):
    """Returns {size: [figures]} of one_sided_enqueue."""
    rows = {int(row[0]): [float(cell) for cell in row[1:]]
            for row in map(str.split, out.splitlines()) if row and row[0].isdigit()}  # fmt: skip
    if largest not in rows:
        raise Failure("one_sided_enqueue printed no row of %d bytes" % largest)
    return rows


def streams(site):
    few, many = (8, 20) if site.trial else (8, 2000)
    rows = table(site.program(2, "bench/one_sided_enqueue", (few, many)), 8)[8]
    names = ("copy 8 B to the peer", "copy 8 B to the peer, lone", "enqueued put 8 B, lone",
             "enqueued accumulate 8 B, lone", "enqueued put 8 B",
             "enqueued get 8 B", "enqueued accumulate 8 B", "enqueued notified put 8 B", "put 8 B in a graph",
             "get 8 B in a graph", "accumulate 8 B in a graph", "notified put 8 B in a graph")  # fmt: skip
    return dict(zip(names, rows))


def large_copies(site):
    """Puts and plain copies of 64 MiB to the peer, in a stream and in a graph."""
    largest = 4 << 20 if site.trial else 64 << 20
    rows = table(site.program(2, "bench/one_sided_enqueue", (largest, 20 if site.trial else 200)), largest)
    gb_s = largest / 1e3
    put = site.bandwidth("puts", "4M" if site.trial else "64M")["puts"]
    return {"copies of 64 MiB": gb_s / rows[largest][0], "enqueued puts of 64 MiB": gb_s / rows[largest][4],
            "puts of 64 MiB over a plain copy": put * rows[largest][0] / gb_s}  # fmt: skip


def named(out):
    """Returns {row: figure} of window_sync and nvshmem_put."""
    return {line[:52].strip(): float(line[52:]) for line in out.splitlines() if line and not line.startswith("#")}


def synchronisation(site):
    rounds = 20 if site.trial else 5000
    rows = named(site.program(site.ranks, "bench/window_sync", (rounds,)))
    figures = {"MPI_Barrier": rows["MPI_Barrier"], "MPI_Win_fence": rows["MPI_Win_fence"],
               "fence less 1.2 barriers": rows["MPI_Win_fence"] - 1.2 * rows["MPI_Barrier"],
               "fence in a stream": rows["MPIX_Win_fence_enqueue"],
               "fence in a graph": rows["MPIX_Win_fence_enqueue, in a graph"],
               "notified put 8 B of the host": rows["MPIX_Put_notify to MPIX_Win_wait_notify, 8 B"]}  # fmt: skip
    ours = {name[8:]: us for name, us in rows.items() if name.startswith("kernel: ")}
    figures.update({"kernel: " + name: us for name, us in ours.items()})
    flag, notified = ours.get("store and flag, 8 B, a thread"), ours.get("put_notify to wait_notify, 8 B, a thread")
    if flag and notified:
        figures["notification over store and flag"] = notified / flag
    if site.nvshmem:
        theirs = named(site.program(2, os.path.abspath(site.nvshmem), (rounds,)))
        figures.update({"NVSHMEM " + name: us for name, us in theirs.items()})
        for blocks in ("a block", "16 blocks"):
            here, there = "put_notify to wait_notify, 1 MiB, " + blocks, "kernel: put_signal to wait, 1 MiB, " + blocks
            if here in ours:
                figures[f"put 1 MiB by {blocks} over NVSHMEM"] = ours[here] / theirs[there]
    return figures


def solver(size, iterations, ranks=None):
    def solve(site):
        figures = {}
        for variant in VARIANTS:
            if variant == "device" and site.trial:  # the emulated driver has no such kernel
                continue
            words = ("-variant", variant, "-skip_single_gpu")
            name = "Jacobi %d x %d %s" % (*size, variant)
            figures[name] = bars.solve(site, ranks or site.ranks, size, iterations, words)[0]
        grid = "Jacobi %d x %d " % size
        for variant in VARIANTS[1:]:
            if grid + variant in figures:
                figures[f"{grid}{variant} over overlap"] = figures[grid + variant] / figures[grid + "overlap"]
        return figures

    return solve


ROUNDS = {"host calls": host_calls, "streams": streams, "synchronisation": synchronisation,
          "small Jacobi": solver((16384, 128), 10000, 2), "large Jacobi": solver((16384, 32768), 1000)}  # fmt: skip
ONCE = {"large copies": large_copies}

if __name__ == "__main__":
    sys.exit(bars.run("Measures one-sided communication between GPUs.", "one-sided", ROUNDS, ONCE, BARS, Windows))
