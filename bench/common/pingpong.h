// SPDX-License-Identifier: BSD-3-Clause
// Round trips of blocking sends and receives between the ranks of a pair: what latency and multi_lat share.
#ifndef BENCH_COMMON_PINGPONG_H
#define BENCH_COMMON_PINGPONG_H
#include "common/harness.h"

/// Sizes and repetitions without options.
#define BENCH_PINGPONG_DEFAULTS                                                                       \
  {                                                                                                   \
    .min_size = 1, .max_size = 4 << 20, .iterations = 10000, .warmup = 200, .iterations_large = 1000, \
    .warmup_large = 10, .samples = true, .element = 1                                                 \
  }

size_t bench_pingpong_capacity(const struct bench_run* run, size_t size);

/// Half a round trip, us.
double bench_pingpong_measure(struct bench_run* run, size_t size, long iterations, long warmup);
bool bench_pingpong_validate(struct bench_run* run, size_t size, long iteration);

#endif
