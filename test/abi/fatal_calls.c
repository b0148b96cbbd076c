/* SPDX-License-Identifier: BSD-3-Clause */
/* Run by fatal.py with the name of an error to make; without an argument it makes none. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

int main(int argc, char** argv) {
  const char* mistake = argc > 1 ? argv[1] : "";
  int value = 0;
  if (strcmp(mistake, "before") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &value);
  if (strcmp(mistake, "info") == 0) MPI_Info_set(MPI_INFO_NULL, "a", "b");
  MPI_Init(&argc, &argv);
  printf("output of the program\n");
  if (strcmp(mistake, "rank") == 0) MPI_Send(&value, 1, MPI_INT, 7, 0, MPI_COMM_WORLD);
  if (strcmp(mistake, "end") == 0) MPI_Abort(MPI_COMM_NULL, 3); /* aborts despite the null communicator */
  if (strcmp(mistake, "comm") == 0) MPI_Barrier(MPI_COMM_NULL);
  if (strcmp(mistake, "abort") == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
    MPI_Recv(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (strcmp(mistake, "foreign") == 0) { /* codes that the program does not look at */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; ++i) MPI_Comm_size((MPI_Comm)(uintptr_t)0x44000000, &value);
    MPI_Barrier(MPI_COMM_NULL);
  }
  MPI_Finalize();
  if (strcmp(mistake, "after") == 0) MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}
