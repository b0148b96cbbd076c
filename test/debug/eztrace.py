# SPDX-License-Identifier: BSD-3-Clause
# EZTrace (Debian package eztrace), a PMPI tool that was built with Open MPI, on a program that was built with Open MPI:
# both run on Weft, and the trace has exactly the program's messages. usage: eztrace.py OPENMPI
import collections
import glob
import os
import shutil
import subprocess
import sys
import tempfile

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "cli", "top.c")
RANKS, MESSAGES, COLLECTIVES = 3, 520, 300  # as in top.c
SKIPPED = 77


def events(folder):
    """Returns the number of events of each kind in the trace."""
    (trace,) = glob.glob(os.path.join(folder, "*_trace", "*.otf2"))
    command = ["otf2-print", trace]
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return collections.Counter(line.split()[0] for line in text.splitlines() if line.strip())


def main():
    mpicc = os.path.join(sys.argv[1], "bin", "mpicc")
    for path in ("eztrace", "otf2-print", mpicc):
        if shutil.which(path) is None:
            print(f"skipped: {path} is missing (Debian packages eztrace, otf2-tools)")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        environment = dict(os.environ, OPAL_PREFIX=sys.argv[1])
        subprocess.run([mpicc, PROGRAM, "-o", program], env=environment, check=True)
        command = [
            os.path.join(PREFIX, "bin", "mpiexec"),
            "-n",
            str(RANKS),
            "eztrace",
            "-t",
            "openmpi",
            program,
            "known",
        ]
        subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, timeout=100)
        found = events(folder)
    expected = {"MPI_SEND": RANKS * MESSAGES, "MPI_RECV": RANKS * MESSAGES}
    expected.update(MPI_COLLECTIVE_BEGIN=RANKS * COLLECTIVES, MPI_COLLECTIVE_END=RANKS * COLLECTIVES)
    counted = {name: found[name] for name in expected}
    assert counted == expected, counted
    print(f"EZTrace: {counted!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
