// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks: half the round trip of a blocking send and receive.
#include "common/pingpong.h"

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency",
                                               .title = "Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {BENCH_PINGPONG_DEFAULTS},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = bench_pingpong_measure,
                                               .validate = bench_pingpong_validate};
  return bench_main(&program, argc, argv);
}
