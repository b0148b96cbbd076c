// SPDX-License-Identifier: BSD-3-Clause
// Windows of nonblocking messages between the ranks of a pair, for bw, bibw, their persistent forms and
// mbw_mr. Timing uses one buffer for the whole window; validation uses a buffer per message.
#ifndef BENCH_COMMON_WINDOW_H
#define BENCH_COMMON_WINDOW_H
#include "common/harness.h"

/// Default sizes, iterations and window.
#define BENCH_WINDOW_DEFAULTS                                                                    \
  {                                                                                              \
    .min_size = 1, .max_size = 4 << 20, .iterations = 100, .warmup = 10, .iterations_large = 20, \
    .warmup_large = 2, .window = 64                                                              \
  }

enum bench_direction { BENCH_ONE_WAY, BENCH_BOTH_WAYS };

size_t bench_window_capacity(const struct bench_run* run, size_t size);

/// Returns messages/s of this pair, all directions together.
double bench_window_rate(struct bench_run* run, long iterations, long warmup, enum bench_direction direction);

/// Returns MB/s (1e6 bytes), all directions together.
double bench_window_measure(struct bench_run* run, size_t size, long iterations, long warmup,
                            enum bench_direction direction);
/// The same by persistent requests, created once per size.
double bench_window_persistent(struct bench_run* run, size_t size, long iterations, long warmup,
                               enum bench_direction direction);
bool bench_window_persistent_validate(struct bench_run* run, size_t size, long iteration,
                                      enum bench_direction direction);
bool bench_window_validate(struct bench_run* run, size_t size, long iteration,
                           enum bench_direction direction);

#endif
