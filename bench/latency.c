// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong between two ranks: half the round trip of a blocking send and receive.
#include "common/pingpong.h"

int main(int argc, char** argv) {
  static const struct bench_program program = {.name = "latency",
                                               .title = "Latency Test",
                                               .column = "Latency (us)",
                                               .field = "latency_us",
                                               .defaults = {.min_size = 1,
                                                            .max_size = 4 << 20,
                                                            .iterations = 10000,
                                                            .warmup = 200,
                                                            .iterations_large = 1000,
                                                            .warmup_large = 10,
                                                            .samples = true,
                                                            .element = 1},
                                               .capacity = bench_pingpong_capacity,
                                               .measure = bench_pingpong_measure,
                                               .validate = bench_pingpong_validate};
  return bench_main(&program, argc, argv);
}
