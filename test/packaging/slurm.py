#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The job scripts of packaging/slurm under a real Slurm with two hosts in network namespaces (test/cluster). With the
# argument "srun": a documented command line of srun with GPU buffers, emulated by the library EMUCUDA.
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
SRUN = """
cd '{folder}'
WEFT_CUDA_DRIVER='{driver}' srun -N1 -n2 --mpi=pmix ./pt2pt/osu_bw --validation D D > srun.out
"""
SIZES = [1 << n for n in range(23)]


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
        print(f"{os.path.basename(path)}:\n{text}")
    return found == expected


def check_bandwidth(path):
    """Returns True if each size of messages has passed its validation."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if re.findall(r"^(\d+) +[\d.]+ +Pass$", text, re.MULTILINE) == list(map(str, SIZES)):
        return True
    print("srun:\n" + text)
    return False


def with_slurm(hosts, commands):
    """Runs shell commands with a Slurm of this number of hosts; returns their exit status."""
    cluster = os.path.join(ROOT, "test", "cluster", "hosts")
    return subprocess.run([cluster, str(hosts), "--", "with-slurm", "sh", "-ec", commands], check=False).returncode


def main():
    lacking = missing()
    if lacking:
        print("skipped: needs " + lacking)
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["srun"]:
            os.mkdir(os.path.join(folder, "pt2pt"))
            os.symlink(os.path.join(PREFIX, "libexec", "weft", "bench", "bw"), os.path.join(folder, "pt2pt", "osu_bw"))
            status = with_slurm(1, SRUN.format(folder=folder, driver=os.environ["EMUCUDA"]))
            return status or (0 if check_bandwidth(os.path.join(folder, "srun.out")) else 1)
        with open(os.path.join(folder, "program.c"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        program = os.path.join(folder, "program")
        subprocess.run([os.path.join(PREFIX, "bin", "mpicc"), program + ".c", "-o", program], check=True)
        status = with_slurm(2, JOB.format(folder=folder, scripts=os.path.join(ROOT, "packaging", "slurm")))
        if status == SKIPPED:
            return SKIPPED
        one = check(os.path.join(folder, "one.out"), 2, 2)
        return 0 if status == 0 and check(os.path.join(folder, "multi.out"), 4, 2) and one else 1


if __name__ == "__main__":
    sys.exit(main())
