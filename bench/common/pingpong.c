// SPDX-License-Identifier: BSD-3-Clause
#include "common/pingpong.h"

enum { TAG = 1 };

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size) {
  (void)run;
  return size;
}

static void exchange(struct bench_run* run, size_t size, void* state) {
  (void)state;
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
  return bench_pingpong_measure_by(exchange, NULL, run, size, iterations, warmup);
}

bool bench_pingpong_validate(struct bench_run* run, size_t size, long iteration) {
  return bench_pingpong_validate_by(exchange, NULL, run, size, iteration);
}

bool bench_pingpong_validate_by(bench_exchange* exchange_by, void* state, struct bench_run* run, size_t size,
                                long iteration) {
  const int peer = run->peer;
  const uint64_t incoming = bench_seed(peer, run->rank, size, iteration, 0);
  bench_buffer_fill(&run->send, 0, size, bench_seed(run->rank, peer, size, iteration, 0));
  bench_buffer_poison(&run->receive, 0, size, incoming);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  exchange_by(run, size, state);
  return bench_buffer_check(&run->receive, 0, size, incoming) &&
         bench_buffer_check_guard(&run->receive, size);
}
