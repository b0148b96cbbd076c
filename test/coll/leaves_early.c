// SPDX-License-Identifier: BSD-3-Clause
// The last rank completes a nonblocking collective in host memory and then stays outside of MPI until all
// others, which have no data in the call, have completed it, too: they need nothing of it any more. Each call
// is the first one on its communicator. usage: leaves_early CALLS
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  const int calls = argc > 1 ? atoi(argv[1]) : 5;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  atomic_int* completed;
  MPI_Aint bytes;
  int unit;
  MPI_Win win;
  MPI_Win_allocate_shared(rank == 0 ? sizeof *completed : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &completed,
                          &win);
  MPI_Win_shared_query(win, 0, &bytes, &unit, &completed);
  if (rank == 0) atomic_store(completed, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = rank == size - 1;
  for (int call = 1; call <= calls; ++call) {
    int in = 100 + call, out = 0;
    MPI_Comm graph;
    MPI_Request request;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, last, &rank, MPI_UNWEIGHTED, last, &rank, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Ineighbor_allgather(&in, last, MPI_INT, &out, last, MPI_INT, graph, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (last && out != in) {
      fprintf(stderr, "leaves_early: %d instead of %d\n", out, in);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const struct timespec pause = {0, 1000000};
    if (!last)
      atomic_fetch_add(completed, 1);
    else
      while (atomic_load(completed) != call * (size - 1)) nanosleep(&pause, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&graph);
  }
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
