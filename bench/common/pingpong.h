// SPDX-License-Identifier: BSD-3-Clause
// Round trips between the ranks of a pair: by blocking sends and receives, which latency, latency_mp and
// multi_lat share, and by what a program gives.
#ifndef BENCH_COMMON_PINGPONG_H
#define BENCH_COMMON_PINGPONG_H
#include <mpi.h>

#include "common/harness.h"

/// Sizes and repetitions without options.
#define BENCH_PINGPONG_SIZES                                                                        \
  .min_size = 1, .max_size = 4 << 20, .iterations = 10000, .warmup = 200, .iterations_large = 1000, \
  .warmup_large = 10
/// And percentiles.
#define BENCH_PINGPONG_DEFAULTS BENCH_PINGPONG_SIZES, .samples = true

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size);

/// Half a round trip, us.
double bench_pingpong_measure(struct bench_run* run, size_t size, long iterations, long warmup);
bool bench_pingpong_validate(struct bench_run* run, size_t size, long iteration);

/// One round trip, begun by the sender; `state` is the program's.
typedef void bench_exchange(struct bench_run* run, size_t size, void* state);

/// Half a round trip, us. Here, so that the exchange is part of the loop.
static inline double bench_pingpong_measure_by(bench_exchange* exchange, void* state, struct bench_run* run,
                                               size_t size, long iterations, long warmup) {
  double start = 0;
  for (long i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      if (run->ranks > 2) MPI_Barrier(bench_comm);  // the pairs compete from the first message on
      start = MPI_Wtime();
      bench_lap_start(run);
    }
    exchange(run, size, state);
    if (i >= 0) bench_lap(run, 2);
  }
  return (MPI_Wtime() - start) * 1e6 / (2.0 * (double)iterations);
}
bool bench_pingpong_validate_by(bench_exchange* exchange, void* state, struct bench_run* run, size_t size,
                                long iteration);

#endif
