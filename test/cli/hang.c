// SPDX-License-Identifier: BSD-3-Clause
// A job that hangs: rank 0 waits in MPI_Recv for rank 1, which never sends; rank 2 waits in a barrier with
// rank 1.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank, value;
  MPI_Comm others;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &others);
  MPI_Comm_set_name(others, "the others");
  for (int i = 0; i < 20; ++i) MPI_Barrier(others);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d\n", (int)getpid());
    fflush(stdout);
    MPI_Recv(&value, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    for (;;) sleep(1);
  } else {
    MPI_Barrier(others);
  }
  return 0;
}
