// SPDX-License-Identifier: BSD-3-Clause
// Processes of two jobs share several hosts: collectives on all of them, which go by host. Started on fake
// hosts. The root of the call spawns; its connection to the first spawned process comes before all others.
// usage: hosts ROOT
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 50, kChildren = 3 };

int main(int argc, char** argv) {
  MPI_Comm parent, between, all;
  int rank, size, wrong = 0, anywhere = 0;
  const int root = argc > 1 ? atoi(argv[1]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  between = parent;
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, kChildren, MPI_INFO_NULL, root, MPI_COMM_WORLD, &between,
                   MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  for (int i = 0; i < kRounds; ++i) {
    int sum = 0, from = rank == i % size ? i : -1;
    MPI_Barrier(all);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Bcast(&from, 1, MPI_INT, i % size, all);
    wrong += sum != size * (size - 1) / 2 || from != i;
  }
  MPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_SUM, all);
  if (rank == 0) printf("%d wrong of %d rounds\n", anywhere, kRounds);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
  MPI_Finalize();
  return anywhere != 0;
}
