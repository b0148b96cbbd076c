// SPDX-License-Identifier: BSD-3-Clause
// Threads that create and complete requests at the same time.
#include <pthread.h>

#include "expect.h"

enum { kThreads = 3, kMessages = 300 };

static void* exchange(void* number) {
  const int tag = (int)(size_t)number;
  for (int i = 0; i < kMessages; ++i) {
    int sent[2] = {i, i + 1}, got[2] = {-1, -1};
    MPI_Request requests[4];
    for (int j = 0; j < 2; ++j) {
      OK(MPI_Irecv(&got[j], 1, MPI_INT, (rank + 1) % ranks, tag * 2 + j, MPI_COMM_WORLD, &requests[j]));
      OK(MPI_Isend(&sent[j], 1, MPI_INT, (rank + ranks - 1) % ranks, tag * 2 + j, MPI_COMM_WORLD,
                   &requests[2 + j]));
    }
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    EXPECT(got[0] == i && got[1] == i + 1);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  pthread_t threads[kThreads];
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  int level;
  OK(MPI_Query_thread(&level));
  EXPECT(level == MPI_THREAD_MULTIPLE);
  for (size_t i = 0; i < kThreads; ++i) EXPECT(pthread_create(&threads[i], NULL, exchange, (void*)i) == 0);
  for (size_t i = 0; i < kThreads; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  return end();
}
