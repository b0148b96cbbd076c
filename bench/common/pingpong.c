// SPDX-License-Identifier: BSD-3-Clause
#include "common/pingpong.h"

#include <mpi.h>

enum { TAG = 1 };

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size) {
  (void)run;
  return size;
}

static void exchange(struct bench_run* run, size_t size) {
  const int peer = run->peer, count = (int)size;
  if (run->sender) {
    MPI_Send(run->send.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(run->receive.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(run->receive.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(run->send.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
  }
}

double bench_pingpong_measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      if (run->ranks > 2) MPI_Barrier(MPI_COMM_WORLD);  // the pairs compete from the first message on
      start = MPI_Wtime();
      bench_lap_start(run);
    }
    exchange(run, size);
    if (i >= 0) bench_lap(run, 2);
  }
  return (MPI_Wtime() - start) * 1e6 / (2.0 * (double)iterations);
}

bool bench_pingpong_validate(struct bench_run* run, size_t size, long iteration) {
  const int peer = run->peer;
  const uint64_t incoming = bench_seed(peer, run->rank, size, iteration, 0);
  bench_buffer_fill(&run->send, 0, size, bench_seed(run->rank, peer, size, iteration, 0));
  bench_buffer_poison(&run->receive, 0, size, incoming);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  exchange(run, size);
  return bench_buffer_check(&run->receive, 0, size, incoming) &&
         bench_buffer_check_guard(&run->receive, size);
}
