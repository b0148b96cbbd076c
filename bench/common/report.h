// SPDX-License-Identifier: BSD-3-Clause
// Output of the benchmarks on rank 0: the columns of the Ohio State programs, and one JSON object.
#ifndef BENCH_COMMON_REPORT_H
#define BENCH_COMMON_REPORT_H
#include "common/harness.h"

#define BENCH_VERSION "0.2.0"

struct bench_row {
  struct bench_kinds kinds;
  const char* type;  ///< element type
  size_t size;
  double average, minimum, maximum;  ///< programs of two ranks: all equal, of rank 0
  double pure, compute, overlap;     ///< programs with `overlap` only; us, us, percent
  double rate;                       ///< messages/s, programs with `rate` only
  double percentiles[BENCH_MAX_PERCENTILES];
  long iterations;
  bool valid;  ///< set with --validation only
};

/// Prints the title, and the memory kinds of the following rows.
void bench_report_header(const struct bench_run* run, struct bench_kinds kinds);
void bench_report_row(const struct bench_run* run, const struct bench_row* row);

/// Writes the file of `--json`. Returns false, with a message on stderr, if it cannot be written.
bool bench_report_json(const struct bench_run* run, int argc, char** argv, const struct bench_row* rows,
                       int count);

/// A row of a program without the options of the Ohio State programs. `fields`: further JSON members; may be
/// "".
struct bench_plain_row {
  size_t size;
  const char* kinds;
  const char* fields;
};
/// Writes the result file of such a program.
bool bench_report_plain(const char* path, const char* program, int ranks, const struct bench_plain_row* rows,
                        int count);
/// The same for a program that measures a job's start: one row.
bool bench_report_start_up(const char* path, const char* program, int ranks, const char* fields);

#endif
