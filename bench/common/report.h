// SPDX-License-Identifier: BSD-3-Clause
// Output of the benchmarks on rank 0: columns as the Ohio State programs print them, and one JSON object.
#ifndef BENCH_COMMON_REPORT_H
#define BENCH_COMMON_REPORT_H
#include "common/harness.h"

#define BENCH_VERSION "0.1.0"

struct bench_row {
  struct bench_kinds kinds;
  const char* type;  ///< of the elements
  size_t size;
  double average, minimum, maximum;  ///< programs of two ranks: all three are rank 0's figure
  double pure, compute, overlap;     ///< programs with `overlap` only; us, us, percent
  double rate;                       ///< messages/s, programs with `rate` only
  double percentiles[BENCH_MAX_PERCENTILES];
  long iterations;
  bool valid;  ///< meaningful with --validation only
};

/// Title, and the kinds of the rows that follow.
void bench_report_header(const struct bench_run* run, struct bench_kinds kinds);
void bench_report_row(const struct bench_run* run, const struct bench_row* row);

/// Writes `--json`; false, with a message on stderr, if the file cannot be written.
bool bench_report_json(const struct bench_run* run, int argc, char** argv, const struct bench_row* rows,
                       int count);

/// The result file of a program that measures a job's start: one row, whose `fields` are JSON members.
bool bench_report_start_up(const char* path, const char* program, int ranks, const char* fields);

#endif
