// SPDX-License-Identifier: BSD-3-Clause
#include "common/pingpong.h"

enum { TAG = 1 };

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size) {
  const size_t parts = run->options.partitions ? (size_t)run->options.partitions : 1;
  return parts * bench_extent(run, size / parts);
}

static void exchange(struct bench_run* run, size_t size, void* state) {
  (void)size, (void)state;
  const int peer = run->peer, count = run->message.count;
  const MPI_Datatype type = run->message.type;
  if (run->sender) {
    MPI_Send(run->send.data, count, type, peer, TAG, bench_comm);
    MPI_Recv(run->receive.data, count, type, peer, TAG, bench_comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(run->receive.data, count, type, peer, TAG, bench_comm, MPI_STATUS_IGNORE);
    MPI_Send(run->send.data, count, type, peer, TAG, bench_comm);
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
  const int peer = run->peer, parts = run->options.partitions ? run->options.partitions : 1;
  const size_t extent = run->message.extent;
  for (int i = 0; i < parts; ++i) {
    bench_message_fill(run, &run->send, (size_t)i * extent, bench_seed(run->rank, peer, size, iteration, i));
    bench_message_poison(run, &run->receive, (size_t)i * extent,
                         bench_seed(peer, run->rank, size, iteration, i));
  }
  bench_buffer_guard(&run->receive, (size_t)parts * extent);
  MPI_Barrier(bench_comm);
  exchange_by(run, size, state);
  bool good = true;
  for (int i = 0; good && i < parts; ++i)
    good = bench_message_check(run, &run->receive, (size_t)i * extent,
                               bench_seed(peer, run->rank, size, iteration, i));
  return good && bench_buffer_check_guard(&run->receive, (size_t)parts * extent);
}
