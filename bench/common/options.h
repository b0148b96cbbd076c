// SPDX-License-Identifier: BSD-3-Clause
// Options of the benchmark programs: the syntax of the Ohio State benchmarks, plus buffer kinds.
// Parsing never prints: a bad option becomes a message that the caller shows on rank 0.
#ifndef BENCH_COMMON_OPTIONS_H
#define BENCH_COMMON_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

#include "common/layout.h"

/// Where a buffer lives; the values are the letters of the command line.
enum bench_kind {
  BENCH_HOST = 'H',     ///< pageable host memory
  BENCH_PINNED = 'P',   ///< host memory allocated by the CUDA driver
  BENCH_DEVICE = 'D',   ///< device memory
  BENCH_MANAGED = 'M',  ///< CUDA managed memory
};

/// One combination of kinds. Pair programs: the sender's and the receiver's buffers; collectives: send and
/// receive buffer.
struct bench_kinds {
  enum bench_kind first;
  enum bench_kind second;
};

enum { BENCH_MAX_KINDS = 16, BENCH_MAX_PERCENTILES = 8, BENCH_MAX_SIZES = 64 };

/// Who takes part in a program.
enum bench_shape {
  BENCH_TWO,         ///< exactly two ranks: rank 0 is the sender, its figure is printed
  BENCH_PAIRS,       ///< an even number: rank r of the first half sends to rank r of the second
  BENCH_COLLECTIVE,  ///< any number of ranks, statistics over them
};

/// What a program does with its data.
enum bench_data {
  BENCH_MOVED,    ///< -T and -D; without -T the elements are MPI_CHAR
  BENCH_REDUCED,  ///< -T; without it MPI_FLOAT
  BENCH_NOTHING,  ///< there is none
};

/// Defaults of one program.
struct bench_defaults {
  size_t min_size;        ///< bytes
  size_t max_size;        ///< bytes
  long iterations;        ///< timed iterations up to BENCH_LARGE bytes
  long warmup;            ///< untimed iterations before them
  long iterations_large;  ///< the same above BENCH_LARGE bytes
  long warmup_large;
  int window;    ///< messages in flight; 0: the program has no window
  bool samples;  ///< single iterations can be timed: percentiles
  enum bench_data data;
  bool tests;        ///< -t names calls of MPI_Test during the computation
  bool root;         ///< -k names the root
  int partitions;    ///< -q names the parts of a message; 0: the program has none
  bool neighbors;    ///< -N names the topology
  bool in_place;     ///< -l leaves input where the result goes
  const char* team;  ///< "threads" or "processes": -t names how many send and receive; else NULL
};

enum { BENCH_MAX_TEAM = 128, BENCH_MAX_DIMENSIONS = 8 };

/// Sizes above this use the `_large` counts, in bytes.
enum { BENCH_LARGE = 8192 };

struct bench_options {
  size_t min_size, max_size;
  size_t
      sizes[BENCH_MAX_SIZES];  ///< bytes, in the order measured: as listed, else doubling from the smallest
  int size_count;
  size_t memory_limit;  ///< most bytes for one buffer of a collective
  long iterations, warmup, iterations_large, warmup_large;
  int window;
  int tests;                           ///< calls of MPI_Test during the computation
  int senders, receivers;              ///< threads or processes of rank 0 and of rank 1
  int root;                            ///< -1: another one each iteration
  int partitions;                      ///< of a message
  int dimensions, radius;              ///< of the grid whose ranks are neighbors
  enum bench_type types[BENCH_TYPES];  ///< measured one after another
  int type_count;
  struct bench_layout layout;
  bool typed;  ///< -T or -D was given: the output names the datatype
  bool in_place;
  bool session;   ///< start by a session
  bool cuda;      ///< the CUDA driver is needed
  bool full;      ///< print minimum, maximum and iterations too
  bool validate;  ///< check every byte of what arrives
  bool help, version;
  double percentiles[BENCH_MAX_PERCENTILES];
  int percentile_count;
  const char* json;  ///< file for the results, or NULL
  struct bench_kinds kinds[BENCH_MAX_KINDS];
  int kind_count;
  char error[256];  ///< empty: the options are good
};

/// Sizes of messages of this type are multiples of so many bytes.
size_t bench_unit(const struct bench_options* options, enum bench_type type);

/// Parses `argv`; every field of `options` is set. Look at `options->error` first.
void bench_options_parse(struct bench_options* options, const struct bench_defaults* defaults,
                         enum bench_shape shape, int argc, char** argv);

/// The text of --help; `size` bytes at `text` receive it.
void bench_options_help(const struct bench_defaults* defaults, const char* program, enum bench_shape shape,
                        char* text, size_t size);

/// "HOST", "PINNED", "DEVICE" or "MANAGED".
const char* bench_kind_name(enum bench_kind kind);

#endif
