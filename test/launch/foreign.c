// SPDX-License-Identifier: BSD-3-Clause
// Built by foreign.py with another MPI's wrappers: prints the library version and a sum over ranks. With an
// argument it creates that file after MPI_Init, and stays until the file is removed.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  if (argc > 1) fclose(fopen(argv[1], "w"));
  while (argc > 1 && access(argv[1], F_OK) == 0) usleep(2000);
  MPI_Get_library_version(version, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d %d %d %.4s\n", rank, size, sum, version);
  MPI_Finalize();
  return 0;
}
