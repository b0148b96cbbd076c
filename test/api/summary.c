// SPDX-License-Identifier: BSD-3-Clause
// Known calls for the summary of WEFT_STATS: each rank sends 10 messages of 400 bytes to the next one and
// makes 5 calls of MPI_Allreduce of 16 bytes, then the last rank is late for a barrier, and for a message to
// rank 0.
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  int rank, size, ints[100] = {0};
  double in[2] = {1, 2}, out[2];
  MPI_Request request;
  const long late_ms = argc > 1 ? atol(argv[1]) : 0;
  const struct timespec late = {late_ms / 1000, late_ms % 1000 * 1000000};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 10; ++i) {
    MPI_Irecv(ints, 100, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request);
    MPI_Send(ints, 100, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < 5; ++i) MPI_Allreduce(in, out, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == size - 1) nanosleep(&late, NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) {
    nanosleep(&late, NULL);
    MPI_Send(ints, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  }
  if (rank == 0) MPI_Recv(ints, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
