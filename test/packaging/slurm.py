#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The job scripts of packaging/slurm under a real Slurm with two hosts in network namespaces (test/cluster).
# Exit status 77 without Slurm, a network library, or the permission to create namespaces.
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PREFIX = os.environ["MPI_PREFIX"]
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d, local rank %s, sum %d\n", rank, size, getenv("LOCAL_RANK"), sum);
  MPI_Finalize();
  return 0;
}
"""
# No GPUs: the command line overrides the resources requested by the scripts.
JOB = """
cd '{folder}'
sbatch --wait -o one.out --gpus-per-node=0 --cpus-per-task=2 '{scripts}/one-node.sbatch' ./program
sbatch --wait -o multi.out --gpus-per-node=0 --ntasks-per-node=2 --cpus-per-task=1 \\
  '{scripts}/multi-node.sbatch' ./program
"""


def missing():
    """Returns the missing requirement, or None."""
    for tool in ("slurmctld", "slurmd", "sbatch", "munged"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
            return "Slurm (Debian: slurm-wlm)"
    for library in ("libucp.so.0", "libpmix.so.2"):
        try:
            ctypes.CDLL(library)
        except OSError:
            return library
    return None


def check(path, ranks, local_ranks):
    """Returns True if a job's output has a line of each rank."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = sorted(re.findall(r"^rank (\d) of (\d), local rank (\d), sum (\d)$", text, re.MULTILINE))
    total = str(ranks * (ranks - 1) // 2)
    expected = [(str(rank), str(ranks), str(rank % local_ranks), total) for rank in range(ranks)]
    if found != expected:
        print("%s:\n%s" % (os.path.basename(path), text))
    return found == expected


def main():
    lacking = missing()
    if lacking:
        print("skipped: needs " + lacking)
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "program.c"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        program = os.path.join(folder, "program")
        subprocess.run([os.path.join(PREFIX, "bin", "mpicc"), program + ".c", "-o", program], check=True)
        job = JOB.format(folder=folder, scripts=os.path.join(ROOT, "packaging", "slurm"))
        hosts = os.path.join(ROOT, "test", "cluster", "hosts")
        done = subprocess.run([hosts, "2", "--", "with-slurm", "sh", "-ec", job], check=False)
        if done.returncode == SKIPPED:
            return SKIPPED
        one = check(os.path.join(folder, "one.out"), 2, 2)
        return 0 if done.returncode == 0 and check(os.path.join(folder, "multi.out"), 4, 2) and one else 1


if __name__ == "__main__":
    sys.exit(main())
