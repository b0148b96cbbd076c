// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong of many pairs at once: rank r of the first half with rank r of the second half. Mean over the
// pairs.
#include "common/pingpong.h"

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "multi_lat",
                                               .title = "Multi Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .shape = BENCH_PAIRS,
                                               .defaults = {BENCH_PINGPONG_DEFAULTS},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = bench_pingpong_measure,
                                               .validate = bench_pingpong_validate};
  return bench_main(&program, argc, argv);
}
