// SPDX-License-Identifier: BSD-3-Clause
// Windows of nonblocking messages between the ranks of a pair: what bw, bibw, their persistent forms and
// mbw_mr share. Timing uses one buffer for the whole window, as usual; validation gives each message its own
// place.
#ifndef BENCH_COMMON_WINDOW_H
#define BENCH_COMMON_WINDOW_H
#include "common/harness.h"

/// Sizes, repetitions and window without options.
#define BENCH_WINDOW_DEFAULTS                                                                    \
  {                                                                                              \
    .min_size = 1, .max_size = 4 << 20, .iterations = 100, .warmup = 10, .iterations_large = 20, \
    .warmup_large = 2, .window = 64                                                              \
  }

enum bench_direction { BENCH_ONE_WAY, BENCH_BOTH_WAYS };

size_t bench_window_capacity(const struct bench_run* run, size_t size);

/// Messages/s of this pair, all directions together.
double bench_window_rate(struct bench_run* run, long iterations, long warmup, enum bench_direction direction);

/// MB/s (1e6 bytes), all directions together.
double bench_window_measure(struct bench_run* run, size_t size, long iterations, long warmup,
                            enum bench_direction direction);
/// The same by persistent requests, made once a size.
double bench_window_persistent(struct bench_run* run, size_t size, long iterations, long warmup,
                               enum bench_direction direction);
bool bench_window_persistent_validate(struct bench_run* run, size_t size, long iteration,
                                      enum bench_direction direction);
bool bench_window_validate(struct bench_run* run, size_t size, long iteration,
                           enum bench_direction direction);

#endif
