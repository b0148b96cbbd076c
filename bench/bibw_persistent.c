// SPDX-License-Identifier: BSD-3-Clause
// Bandwidth between two ranks, in both directions at once, by persistent requests: windows started together,
// each acknowledged.
#include "common/window.h"

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  return bench_window_persistent(run, size, iterations, warmup, BENCH_BOTH_WAYS);
}

static bool validate(struct bench_run* run, size_t size, long iteration) {
  return bench_window_persistent_validate(run, size, iteration, BENCH_BOTH_WAYS);
}

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "bibw_persistent",
                                               .title = "Persistent Bi-Directional Bandwidth Test",
                                               .column = "Bandwidth (MB/s)",
                                               .field = "bandwidth_mb_s",
                                               .defaults = BENCH_WINDOW_DEFAULTS,
                                               .capacity = bench_window_capacity,
                                               .measure = measure,
                                               .validate = validate};
  return bench_main(&program, argc, argv);
}
