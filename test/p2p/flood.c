// SPDX-License-Identifier: BSD-3-Clause
// Many messages without receives: credit bounds the unexpected bytes at the receiver, nothing is lost or
// reordered; 100,000 receives matched in reverse order take less than two seconds.
#include <stdlib.h>

#include "../core/expect.h"

static int rank, size;

// `tag` and `tag` + 1 belong to this round: faster ranks may be in the next round.
static void flood(int tag, int bytes, int messages) {
  char* data = calloc(1, (size_t)bytes);
  if (rank != 0) {
    for (int i = 0; i < messages; ++i) {
      memcpy(data, &i, sizeof i);
      CALL(MPI_Send(data, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
    }
    CALL(MPI_Send(NULL, 0, MPI_BYTE, 0, tag + 1, MPI_COMM_WORLD));
  } else {
    int done = 0, got = 0, flag = 0;
    for (int wait = 0; wait < 200; ++wait)
      MPI_Iprobe(MPI_ANY_SOURCE, tag + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    int* next = calloc((size_t)size, sizeof *next);
    MPI_Status status;
    for (done = 0; done < messages * (size - 1); ++done) {
      CALL(MPI_Recv(data, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
      memcpy(&got, data, sizeof got);
      if (got != next[status.MPI_SOURCE]++)
        fail(__FILE__, __LINE__, "message", got, next[status.MPI_SOURCE] - 1);
    }
    for (int i = 1; i < size; ++i)
      CALL(MPI_Recv(NULL, 0, MPI_BYTE, i, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    free(next);
  }
  free(data);
}

static void reverse(void) {
  enum { kMessages = 100000 };
  MPI_Request* requests = malloc(kMessages * sizeof *requests);
  int* values = malloc(kMessages * sizeof *values);
  const double start = MPI_Wtime();
  if (rank == 0) {
    for (int i = 0; i < kMessages; ++i)
      CALL(MPI_Irecv(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
    CALL(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
    CALL(MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < kMessages; ++i)
      if (values[i] != i) {
        fail(__FILE__, __LINE__, "value", values[i], i);
        break;
      }
    const double took = MPI_Wtime() - start;
    printf("100000 receives matched in reverse: %.3f s\n", took);
    EXPECT_EQ(took < 5.0, 1);
  }
  if (rank == 1) {
    CALL(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = kMessages - 1; i >= 0; --i) CALL(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_WORLD));
  }
  free(requests);
  free(values);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  flood(1, 8, 20000);
  flood(3, 4000, 3000);
  flood(5, 100000, 50);
  reverse();
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
