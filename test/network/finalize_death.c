// SPDX-License-Identifier: BSD-3-Clause
// One rank dies while the others wait for it in MPI_Finalize: they end, and each prints "ended". Argument:
// the rank.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc == 2 && rank == atoi(argv[1])) {
    const struct timespec until_they_wait = {0, 200000000};
    nanosleep(&until_they_wait, NULL);
    kill(getpid(), SIGKILL);
  }
  MPI_Finalize();
  return write(1, "ended\n", 6) != 6;
}
