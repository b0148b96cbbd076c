// SPDX-License-Identifier: BSD-3-Clause
// Harness of every benchmark program: start, the loop over memory kinds and sizes, output, exit code. A
// program supplies functions that measure and validate one size.
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
  const char* name;    ///< on the command line: latency
  const char* title;   ///< first line of the output: "# Weft MPI <title> v..."
  const char* column;  ///< "Latency (us)"
  const char* field;   ///< the same in JSON: latency_us
  enum bench_shape shape;
  bool overlap;  ///< measure() sets pure_us and compute_us of the run; the overlap is printed
  bool threads;  ///< several threads call MPI: requests MPI_THREAD_MULTIPLE
  bool rate;     ///< measure() returns messages/s of this sender; bandwidth and rate of all pairs are printed
  struct bench_defaults defaults;
  /// Returns the required bytes of the send and the receive buffer for messages of `size` bytes.
  size_t (*capacity)(const struct bench_run* run, size_t size);
  /// Returns this rank's figure for `size` bytes, in the unit of `column`. Pair programs: only that of
  /// senders counts.
  double (*measure)(struct bench_run* run, size_t size, long iterations, long warmup);
  /// Sends known bytes, different for each `iteration`, and checks the received bytes.
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
  double pure_us, compute_us;  ///< programs with `overlap`: communication alone; computation
  struct bench_buffer send, receive;
  enum bench_type type;          ///< element type
  struct bench_message message;  ///< count and datatype of messages of the current size
};

/// Body of main(). Returns the exit code: 0, 1 validation failed, 2 bad options or number of ranks, 3 no
/// device.
int bench_main(const struct bench_program* program, int argc, char** argv);

#endif
