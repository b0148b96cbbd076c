// SPDX-License-Identifier: BSD-3-Clause
// The last rank neither receives nor answers, then it is killed: messages on their way to it, which the
// network may never release, keep no other messages of their sender from being sent. Started with
// --continue-on-failure, each rank on a host of its own.
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kMessages = 60, kBytes = 32000, kBusyUs = 1000000 };

static char data[kMessages][kBytes];

// Returns whether rank 0 and rank 1 can exchange messages of all sizes.
static int exchange(int rank) {
  static char message[kBytes];
  for (int bytes = 0; bytes <= kBytes; bytes += kBytes / 4) {
    MPI_Status status;
    memset(message, rank + 1, kBytes);
    int code =
        MPI_Sendrecv_replace(message, bytes, MPI_BYTE, 1 - rank, 1, 1 - rank, 1, MPI_COMM_WORLD, &status);
    if (code != MPI_SUCCESS || (bytes != 0 && message[bytes - 1] != 2 - rank)) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  int rank, ranks, good = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int last = ranks - 1;
  char word = 0;
  if (rank == last) MPI_Send(&word, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == last) {
    usleep(kBusyUs);
    kill(getpid(), SIGKILL);
  }
  MPI_Request requests[kMessages];
  const double start = MPI_Wtime();
  if (rank == 0) {
    MPI_Recv(&word, 1, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kMessages; ++i)
      MPI_Isend(data[i], kBytes, MPI_BYTE, last, 2, MPI_COMM_WORLD, &requests[i]);
  }
  if (!exchange(rank) || (MPI_Wtime() - start) * 1e6 > 0.8 * kBusyUs) {
    printf("rank %d: waits for a rank that computes\n", rank);
    good = 0;
  }
  int code = MPI_SUCCESS;
  while (code == MPI_SUCCESS) code = MPI_Recv(&word, 1, MPI_BYTE, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);  // errors, or sent into buffers
  if (!exchange(rank)) {
    printf("rank %d: an exchange after the death\n", rank);
    good = 0;
  }
  if (good) printf("good\n");
  fflush(stdout);
  MPI_Finalize();
  return !good;
}
