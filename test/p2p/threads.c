// SPDX-License-Identifier: BSD-3-Clause
// MPI_THREAD_MULTIPLE: threads that send and receive concurrently, on one communicator by tag and on one
// communicator each.
#include <pthread.h>
#include <stdlib.h>

#include "../core/expect.h"

enum { kThreads = 4, kRounds = 300 };
static int rank, size;
static MPI_Comm own[kThreads];
static int bad[kThreads];

static void* work(void* argument) {
  const int me = (int)(size_t)argument;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int* out = malloc(40000 * sizeof *out);
  int* in = malloc(40000 * sizeof *in);
  for (int round = 0; round < kRounds; ++round) {
    const int n = round % 10 == 0 ? 40000 : 1 + round % 7;
    for (int i = 0; i < n; ++i) out[i] = rank * 1000 + me * 100 + round + i;
    MPI_Comm comm = round % 2 == 0 ? MPI_COMM_WORLD : own[me];
    MPI_Request requests[2];
    MPI_Irecv(in, n, MPI_INT, left, me, comm, &requests[0]);
    MPI_Isend(out, n, MPI_INT, right, me, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; ++i) bad[me] += in[i] != left * 1000 + me * 100 + round + i;
    int sum = 0;
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, own[me]);
    bad[me] += sum != me * size;
  }
  free(out);
  free(in);
  return NULL;
}

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(bad[i], 0);
    MPI_Comm_free(&own[i]);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
