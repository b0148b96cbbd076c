// SPDX-License-Identifier: BSD-3-Clause
// The frame of every benchmark program: start, the loop over kinds and sizes, the output, the exit code.
// A program supplies how one size is measured and validated.
#ifndef BENCH_COMMON_HARNESS_H
#define BENCH_COMMON_HARNESS_H
#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/device.h"
#include "common/message.h"
#include "common/options.h"
#include "common/samples.h"
#include "common/start.h"

struct bench_run;

struct bench_program {
  const char* name;    ///< as typed: latency
  const char* title;   ///< first line of the output: "# Weft MPI <title> v..."
  const char* column;  ///< "Latency (us)"
  const char* field;   ///< the same in JSON: latency_us
  enum bench_shape shape;
  bool overlap;  ///< measure() sets pure_us and compute_us of the run: how much computation hides is printed
  bool threads;  ///< several threads call MPI: MPI_THREAD_MULTIPLE is asked for
  bool rate;     ///< measure() returns messages/s of this sender; bandwidth and rate of all pairs are printed
  struct bench_defaults defaults;
  /// Bytes that the send and the receive buffer must have for messages of `size` bytes.
  size_t (*capacity)(const struct bench_run* run, size_t size);
  /// This rank's figure for `size` bytes, in the unit of `column`. Pair programs: only senders' count.
  double (*measure)(struct bench_run* run, size_t size, long iterations, long warmup);
  /// Sends known bytes and checks what arrives here; `iteration` makes them differ.
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
};

struct bench_run {
  const struct bench_program* program;
  struct bench_options options;
  struct bench_device_info device;
  int rank, ranks;
  int peer;     ///< pair programs: the other rank of the pair
  bool sender;  ///< pair programs: this rank is in the first half
  struct bench_samples samples;
  double pure_us, compute_us;  ///< programs with `overlap`: without computation; the computation
  struct bench_buffer send, receive;
  enum bench_type type;          ///< of the elements, and
  struct bench_message message;  ///< of what count and datatype messages of the current size are
};

/// The body of main(). Exit code: 0, 1 validation failed, 2 bad options or number of ranks, 3 no device.
int bench_main(const struct bench_program* program, int argc, char** argv);

#endif
