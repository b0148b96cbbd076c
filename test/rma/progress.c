/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: a rank that waits for a value in its window and calls only MPI_Win_flush for itself and
 * MPI_Win_sync serves operations of other ranks, and its own large sends. */
#include <string.h>

#include "check.h"

enum { BYTES = 4 << 20 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  volatile int* flag;
  MPI_Win win;
  MPI_Win_allocate(sizeof *flag, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void*)&flag, &win);
  *flag = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  char* data = malloc(BYTES);
  memset(data, rank, BYTES);
  const int next = (rank + 1) % size, one = 1;
  for (int by_flush = 0; by_flush < 2; ++by_flush) {
    MPI_Win_lock_all(0, win);
    if (rank % 2 == 0) {
      MPI_Request request;
      MPI_Isend(data, BYTES, MPI_BYTE, next, 0, MPI_COMM_WORLD, &request);
      while (*flag == 0)
        if (by_flush)
          MPI_Win_flush(rank, win);
        else
          MPI_Win_sync(win);
      *flag = 0;
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data, BYTES, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK(data[BYTES - 1] == rank - 1);
      MPI_Accumulate(&one, 1, MPI_INT, rank - 1, 0, 1, MPI_INT, MPI_REPLACE, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(data);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
