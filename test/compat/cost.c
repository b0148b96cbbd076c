// SPDX-License-Identifier: BSD-3-Clause
// Time of one call in ns: MPI_Comm_rank; MPI_Isend and MPI_Wait to MPI_PROC_NULL, two calls; 8-byte ping-pong
// of two ranks. Prints the smallest of several rounds. Built against two binary interfaces and compared by
// cost.py.
#include <mpi.h>
#include <stdio.h>

enum { kRounds = 20, kCalls = 20000 };

int main(int argc, char** argv) {
  double rank_ns = 1e9, send_ns = 1e9, pong_ns = 1e9;
  int rank, ranks;
  long value = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int round = 0; round < kRounds; ++round) {
    double start = MPI_Wtime(), end;
    for (int i = 0; i < kCalls; ++i) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    end = MPI_Wtime();
    if ((end - start) * 1e9 / kCalls < rank_ns) rank_ns = (end - start) * 1e9 / kCalls;
    start = MPI_Wtime();
    for (int i = 0; i < kCalls; ++i) {
      MPI_Request request;
      MPI_Isend(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    end = MPI_Wtime();
    if ((end - start) * 1e9 / kCalls / 2 < send_ns) send_ns = (end - start) * 1e9 / kCalls / 2;
    if (ranks != 2) continue;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < kCalls / 10; ++i) {
      if (rank == 0) MPI_Send(&value, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(&value, 1, MPI_LONG, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(&value, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
    }
    end = MPI_Wtime();
    if ((end - start) * 1e10 / kCalls / 2 < pong_ns) pong_ns = (end - start) * 1e10 / kCalls / 2;
  }
  if (rank == 0) printf("%.2f %.2f %.1f\n", rank_ns, send_ns, pong_ns);
  MPI_Finalize();
  return 0;
}
