// SPDX-License-Identifier: BSD-3-Clause
// Bandwidth between two ranks, in one direction: windows of nonblocking messages, each acknowledged.
#include "common/window.h"

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  return bench_window_measure(run, size, iterations, warmup, BENCH_ONE_WAY);
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  return bench_window_validate(run, size, iteration, BENCH_ONE_WAY);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "bw",
                                               .title = "Bandwidth Test",
                                               .column = "Bandwidth (MB/s)",
                                               .field = "bandwidth_mb_s",
                                               .defaults = BENCH_WINDOW_DEFAULTS,
                                               .capacity = bench_window_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
