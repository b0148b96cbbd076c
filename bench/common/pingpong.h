// SPDX-License-Identifier: BSD-3-Clause
// Round trips between the ranks of a pair: by blocking sends and receives (latency, latency_mp, multi_lat),
// or by a function of the program.
#ifndef BENCH_COMMON_PINGPONG_H
#define BENCH_COMMON_PINGPONG_H
#include <mpi.h>

#include "common/harness.h"

/// Default sizes and iterations.
#define BENCH_PINGPONG_SIZES                                                                        \
  .min_size = 1, .max_size = 4 << 20, .iterations = 10000, .warmup = 200, .iterations_large = 1000, \
  .warmup_large = 10
/// The same, with percentiles.
#define BENCH_PINGPONG_DEFAULTS BENCH_PINGPONG_SIZES, .samples = true

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size);

/// Returns half a round trip in us.
double bench_pingpong_measure(struct bench_run* run, size_t size, long iterations, long warmup);
bool bench_pingpong_validate(struct bench_run* run, size_t size, long iteration);

/// Performs one round trip, started by the sender; `state` belongs to the program.
typedef void bench_exchange(struct bench_run* run, size_t size, void* state);

/// Returns half a round trip in us. Inline, so that the compiler can inline the exchange into the loop.
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
