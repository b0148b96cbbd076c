/* SPDX-License-Identifier: BSD-3-Clause */
/* Ping-pong of 8 bytes, and of a row of a matrix by a datatype made once: the counterpart of pingpong.F90. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double matrix[4096][64];

static double measure(int rank, void* buffer, int count, MPI_Datatype type, int rounds) {
  double start = 0;
  for (int round = -rounds / 10; round < rounds; ++round) {
    if (round == 0) start = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(buffer, count, type, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(buffer, count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(buffer, count, type, 0, 1, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - start) / rounds / 4 * 1e9;
}

/* Shortest time of many short batches, which a busy machine interrupts less: a call to no process, and a
   message of a process to itself (three calls). */
static double alone(const void* buffer, int count, MPI_Datatype type, int n, int batches, int calls) {
  static double received[4096];
  double best = 1;
  for (int batch = 0; batch < batches; ++batch) {
    const double start = MPI_Wtime();
    for (int i = 0; i < calls; ++i) {
      MPI_Request request;
      if (n == 0) {
        MPI_Send(buffer, count, type, MPI_PROC_NULL, 1, MPI_COMM_SELF);
        MPI_Recv(received, count, type, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
      } else {
        MPI_Irecv(received, n, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &request);
        MPI_Send(buffer, count, type, 0, 1, MPI_COMM_SELF);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    }
    const double time = (MPI_Wtime() - start) / calls;
    if (time < best) best = time;
  }
  return best * 1e9;
}

int main(int argc, char** argv) {
  int rank, rounds = argc > 1 ? atoi(argv[1]) : 200000;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double small = measure(rank, matrix, 1, MPI_DOUBLE, rounds);
  if (rank == 0) printf("8 %.1f\n", small);
  if (rank == 0) printf("call %.1f\n", alone(matrix, 1, MPI_DOUBLE, 0, 2000, 500) / 2);
  if (rank == 0) printf("self_8 %.1f\n", alone(matrix, 1, MPI_DOUBLE, 1, 2000, 100));
  for (int n = 8; n <= 4096; n *= 8) {
    MPI_Datatype row;
    MPI_Type_vector(n, 1, 64, MPI_DOUBLE, &row);
    MPI_Type_commit(&row);
    const int fewer = rounds / 8 / (1 + n / 64);
    const double section = measure(rank, &matrix[0][3], 1, row, fewer < 50 ? 50 : fewer);
    if (rank == 0) printf("section%d %.1f\n", 8 * n, section);
    if (rank == 0)
      printf("self_section%d %.1f\n", 8 * n, alone(&matrix[0][3], 1, row, n, 2000, 4000 / n + 1));
    MPI_Type_free(&row);
  }
  MPI_Finalize();
  return 0;
}
