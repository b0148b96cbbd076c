// SPDX-License-Identifier: BSD-3-Clause
// The last rank sends the first messages of all ranks, each on a host of its own, and computes: the others
// have them before. Nor does it wait for long to send to ranks that compute.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kBusyUs = 2000000 };

static int rank, last;

static void broadcast(void) {
  int word = rank == last ? 5 : 0;
  MPI_Bcast(&word, 1, MPI_INT, last, MPI_COMM_WORLD);
  if (word != 5) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void send(void) {
  int word = 5;
  for (int other = 0; other < last; ++other) {
    if (rank == last) MPI_Send(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    if (rank == other) MPI_Recv(&word, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void nonblocking(void) {
  int word = 5;
  MPI_Request requests[8];
  if (rank != last)
    MPI_Recv(&word, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    for (int other = 0; other < last; ++other)
      MPI_Isend(&word, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[other]);
  if (rank == last) MPI_Waitall(last, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &last);
  --last;
  const int receivers_compute = strcmp(argv[1], "busy_receivers") == 0;
  if (receivers_compute && rank != last) usleep(kBusyUs);
  const double start = MPI_Wtime();
  if (strcmp(argv[1], "broadcast") == 0)
    broadcast();
  else if (strcmp(argv[1], "nonblocking") == 0)
    nonblocking();
  else
    send();
  const double seconds = MPI_Wtime() - start;
  if (!receivers_compute && rank == last) usleep(kBusyUs);
  const int late = seconds > 0.7e-6 * kBusyUs;
  if (late) printf("rank %d: %.2f s for the first messages of %s\n", rank, seconds, argv[1]);
  fflush(stdout);
  MPI_Finalize();
  return late;
}
