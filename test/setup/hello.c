// SPDX-License-Identifier: BSD-3-Clause
// Prints "rank/size library" on each rank; a minimal program that uses mpi.h, the library and the launcher.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = -1, size = -1, length = 0;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_library_version(library, &length);
  printf("%d/%d %.4s\n", rank, size, library);
  return MPI_Finalize();
}
