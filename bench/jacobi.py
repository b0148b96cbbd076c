#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Measures the Jacobi solver: a large grid, which the sweep limits, on one GPU, on two and so on, and a flat one, which
# messages limit, in each variant. Exit status as that of bars.py.
import sys

import bars

LARGE, LARGE_ITERATIONS = (16384, 32768), 1000
FLAT, FLAT_ITERATIONS = (16384, 128), 10000
VARIANTS = ("overlap", "cuda_aware", "host_staged", "window", "stream", "device")
# Required figures on H200: name -> (figure, whether higher is better, unit).
BARS = {
    "16384 x 128, 2 GPUs, overlap": (0.42, False, "s"),
    "16384 x 128, 2 GPUs, device": (0.12, False, "s"),
}


def variants(site):
    """Returns the variants that run: the emulated driver lacks what two of them need."""
    return [variant for variant in VARIANTS if not (site.trial and variant in ("stream", "device"))]


def named(size, gpus, variant):
    return "%d x %d, %s, %s" % (*size, "1 GPU" if gpus == 1 else f"{gpus} GPUs", variant)


def large(site):
    """Returns the seconds of each variant on 2, 4, ... GPUs, and on one, which the first solve of the variants gives."""
    figures, gpus = {}, 2
    while gpus <= site.ranks:
        for variant in variants(site):
            skip = () if gpus == 2 and variant == VARIANTS[0] else ("-skip_single_gpu",)
            together, alone = bars.solve(site, gpus, LARGE, LARGE_ITERATIONS, ("-variant", variant, *skip))
            figures[named(LARGE, gpus, variant)] = together
            if not skip:
                figures[named(LARGE, 1, variant)] = alone
        gpus *= 2
    return figures


def flat(site):
    figures = {}
    for variant in variants(site):
        words = ("-variant", variant, "-skip_single_gpu")
        figures[named(FLAT, 2, variant)] = bars.solve(site, 2, FLAT, FLAT_ITERATIONS, words)[0]
    return figures


if __name__ == "__main__":
    sys.exit(bars.run("Measures the Jacobi solver's variants.", "jacobi", {"flat": flat, "large": large}, {}, BARS))
