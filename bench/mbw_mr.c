// SPDX-License-Identifier: BSD-3-Clause
// Bandwidth and message rate of many pairs at once, one way: rank r of the first half sends windows of
// nonblocking messages to rank r of the second half, each window acknowledged. All messages divided by the
// time of the slowest pair.
#include "common/window.h"

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  (void)size;
  return bench_window_rate(run, iterations, warmup, BENCH_ONE_WAY);
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  return bench_window_validate(run, size, iteration, BENCH_ONE_WAY);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "mbw_mr",
                                               .title = "Multiple Bandwidth / Message Rate Test",
                                               .column = "MB/s",
                                               .field = "bandwidth_mb_s",
                                               .shape = BENCH_PAIRS,
                                               .rate = true,
                                               .defaults = BENCH_WINDOW_DEFAULTS,
                                               .capacity = bench_window_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
