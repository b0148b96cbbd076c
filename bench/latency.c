// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks: half the round trip of a blocking send and receive.
#include <mpi.h>

#include "common/harness.h"

enum { TAG = 1 };

static size_t capacity(const struct bench_run* run, size_t size) {
  (void)run;
  return size;
}

static void exchange(struct bench_run* run, size_t size) {
  const int peer = 1 - run->rank, count = (int)size;
  if (run->rank == 0) {
    MPI_Send(run->send.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(run->receive.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(run->receive.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(run->send.data, count, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
  }
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) start = MPI_Wtime();
    exchange(run, size);
  }
  return (MPI_Wtime() - start) * 1e6 / (2.0 * (double)iterations);
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  const int peer = 1 - run->rank;
  const uint64_t incoming = bench_seed(peer, run->rank, size, iteration, 0);
  bench_buffer_fill(&run->send, 0, size, bench_seed(run->rank, peer, size, iteration, 0));
  bench_buffer_poison(&run->receive, 0, size, incoming);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  exchange(run, size);
  return bench_buffer_check(&run->receive, 0, size, incoming) &&
         bench_buffer_check_guard(&run->receive, size);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency",
                                               .title = "Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {.min_size = 1,
                                                            .max_size = 4 << 20,
                                                            .iterations = 10000,
                                                            .warmup = 200,
                                                            .iterations_large = 1000,
                                                            .warmup_large = 10,
                                                            .element = 1},
                                               .capacity = capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
