#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Valgrind with its wrapper of MPI, which Debian builds for Open MPI, on a program of Open MPI's interface: the wrapper sees
# the program's calls alone, finds its mistake and no other. usage: valgrind.py PREFIX_OF_OPEN_MPI FOLDER; the packages are
# unpacked to the folder. Status 77 without them.
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "applications"))
import debian  # noqa: E402

PREFIX = os.environ["MPI_PREFIX"]
SOURCE = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, ranks, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int* values = malloc(4 * sizeof *values);
  for (int i = 0; i < 4; ++i) values[i] = rank + i;
  if (argc > 1) values = malloc(4 * sizeof *values);  /* undefined */
  int received[4];
  MPI_Sendrecv(values, 4, MPI_INT, (rank + 1) % ranks, 0, received, 4, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Datatype column;
  MPI_Type_vector(2, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Send(values, 1, column, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Type_free(&column);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %d\\n", sum);
  return MPI_Finalize();
}
"""


def run(root, program, *arguments):
    tool = os.path.join(root, "usr", "libexec", "valgrind")
    wrapper = os.path.join(root, debian.LIBRARIES, "valgrind", "libmpiwrap-amd64-linux.so")
    shim = os.path.join(PREFIX, "lib", "compat", "libmpi.so.40")
    variables = ["-x", f"VALGRIND_LIB={tool}", "-x", f"LD_PRELOAD={wrapper}:{shim}"]
    command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", *variables,
               os.path.join(root, "usr", "bin", "valgrind"), "-q", program, *arguments]  # fmt: skip
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout


def main():
    other, root = sys.argv[1:]
    if not os.path.exists(os.path.join(other, "bin", "mpicc")):
        debian.skip(f"{other} is not there")
    try:
        debian.fetch(root, ["valgrind", "valgrind-mpi"])
    except debian.Missing as error:
        debian.skip(str(error))
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "program.c"), os.path.join(folder, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        subprocess.run([os.path.join(other, "bin", "mpicc"), "-g", source, "-o", program], check=True)
        status, text = run(root, program)
        print(text)
        assert status == 0 and "sum 1\n" in text, status
        assert len(re.findall("Active for pid", text)) == 2, "the wrapper is not active"
        assert "ninitialised" not in text and "unaddressable" not in text, "errors where there are none"
        status, text = run(root, program, "undefined")
        print(text)
        assert status == 0 and "sum 1\n" in text, status
        assert re.search(r"[Uu]ninitialised", text), "the mistake is not found"
    return 0


if __name__ == "__main__":
    sys.exit(main())
