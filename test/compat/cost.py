#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Cost of the translation: cost.c built with another MPI's wrapper and with Weft's, in turns, on 2 ranks. A call may
# cost at most 5 ns more, the ping-pong at most 3 percent. usage: cost.py PREFIX_OF_OTHER_MPI [EARLIER]; status 77 if
# the prefix is not there. EARLIER: a library of another build (PREFIX/lib/compat/libmpi.so.12), in the same turns.
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ["MPI_PREFIX"]
MOST_NS = 5.0
MOST_RATIO = 1.03
ROUNDS = 9
LATENCY = "8-byte latency"
ROWS = ("MPI_Comm_rank", "MPI_Isend, MPI_Wait (each)", LATENCY)


def main():
    other = os.path.join(sys.argv[1], "bin", "mpicc")
    if not os.path.exists(other):
        print(f"skipped: {other} is not there")
        return 77
    kinds = {"own": ("own", []), "other": ("other", [])}
    if len(sys.argv) > 2:
        kinds["earlier"] = ("other", ["-x", "LD_PRELOAD=" + os.path.abspath(sys.argv[2])])
    runs = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for name, wrapper in (("other", other), ("own", os.path.join(PREFIX, "bin", "mpicc"))):
            subprocess.run([wrapper, "-O2", os.path.join(HERE, "cost.c"), "-o", os.path.join(folder, name)], check=True)
        for _ in range(ROUNDS):
            for kind, (program, options) in kinds.items():
                command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", *options, os.path.join(folder, program)]
                text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                runs[kind].append([float(word) for word in text.split()])
    bad = 0
    best = {kind: [min(column) for column in zip(*values)] for kind, values in runs.items()}
    for row, name in enumerate(ROWS):
        own, through = best["own"][row], best["other"][row]
        ratio = statistics.median(b[row] / a[row] for a, b in zip(runs["own"], runs["other"]))
        text = "%-28s %7.2f ns, through the other interface %7.2f ns (median ratio %.3f)" % (name, own, through, ratio)
        print(text + (", earlier %7.2f ns" % best["earlier"][row] if "earlier" in best else ""))
        bad |= ratio > MOST_RATIO if name == LATENCY else through - own > MOST_NS
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
