#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Cost of the translation: cost.c built with another MPI's wrapper and with Weft's, in turns, on 2 ranks. A call may cost
# at most 5 ns more. usage: cost.py PREFIX_OF_OTHER_MPI; status 77 if the prefix is not there.
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ["MPI_PREFIX"]
MOST_NS = 5.0
ROUNDS = 5


def main():
    other = os.path.join(sys.argv[1], "bin", "mpicc")
    if not os.path.exists(other):
        print("skipped: %s is not there" % other)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        best = {}
        for name, wrapper in (("other", other), ("own", os.path.join(PREFIX, "bin", "mpicc"))):
            subprocess.run([wrapper, "-O2", os.path.join(HERE, "cost.c"), "-o", os.path.join(folder, name)], check=True)
        for _ in range(ROUNDS):
            for name in ("own", "other"):
                command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", os.path.join(folder, name)]
                text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                values = [float(word) for word in text.split()]
                best[name] = [min(pair) for pair in zip(best.get(name, values), values)]
    bad = 0
    for what, own, through in zip(
        ("MPI_Comm_rank", "MPI_Isend, MPI_Wait (each)", "8-byte latency"), best["own"], best["other"]
    ):
        print("%-28s %7.2f ns, through the other interface %7.2f ns" % (what, own, through))
        bad |= what != "8-byte latency" and through - own > MOST_NS
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
