// SPDX-License-Identifier: BSD-3-Clause
// Options of the benchmark programs: the syntax of the Ohio State benchmarks, plus buffer kinds.
// Parsing never prints: it stores an error message, which the caller prints on rank 0.
#ifndef BENCH_COMMON_OPTIONS_H
#define BENCH_COMMON_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

#include "common/layout.h"

/// Memory kind of a buffer; the values are the letters of the command line.
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

/// Ranks that take part in a program.
enum bench_shape {
  BENCH_TWO,         ///< exactly two ranks; prints the figure of rank 0, the sender
  BENCH_PAIRS,       ///< an even number: rank r of the first half sends to rank r of the second
  BENCH_COLLECTIVE,  ///< any number of ranks; prints statistics over the ranks
};

/// Operation of a program on its data.
enum bench_data {
  BENCH_MOVED,    ///< moves data: has -T (default MPI_CHAR) and -D
  BENCH_REDUCED,  ///< reduces data: has -T (default MPI_FLOAT)
  BENCH_NOTHING,  ///< has no data
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
  bool samples;  ///< has percentiles of single iterations
  enum bench_data data;
  bool tests;        ///< has -t: number of calls of MPI_Test during the computation
  bool root;         ///< has -k: the root
  int partitions;    ///< default of -q, partitions of a message; 0: no partitions
  bool neighbors;    ///< has -N: the topology
  bool in_place;     ///< has -l: MPI_IN_PLACE
  const char* team;  ///< "threads" or "processes" counted by -t; else NULL
};

enum { BENCH_MAX_TEAM = 128, BENCH_MAX_DIMENSIONS = 8 };

/// Sizes above this use the `_large` counts, in bytes.
enum { BENCH_LARGE = 8192 };

struct bench_options {
  size_t min_size, max_size;
  size_t sizes[BENCH_MAX_SIZES];  ///< bytes, in the order of measurement: as listed, else doubling
  int size_count;
  size_t memory_limit;  ///< largest buffer of a collective in bytes
  long iterations, warmup, iterations_large, warmup_large;
  int window;
  int tests;                           ///< calls of MPI_Test during the computation
  int senders, receivers;              ///< threads or processes of rank 0 and of rank 1
  int root;                            ///< -1: changes with each iteration
  int partitions;                      ///< of a message
  int dimensions, radius;              ///< of the grid of neighbors
  enum bench_type types[BENCH_TYPES];  ///< measured one after another
  int type_count;
  struct bench_layout layout;
  bool typed;  ///< -T or -D is set: the output names the datatype
  bool in_place;
  bool session;   ///< initialise by a session
  bool cuda;      ///< needs the CUDA driver
  bool full;      ///< print minimum, maximum and iterations too
  bool validate;  ///< check every received byte
  bool help, version;
  double percentiles[BENCH_MAX_PERCENTILES];
  int percentile_count;
  const char* json;  ///< file for the results, or NULL
  struct bench_kinds kinds[BENCH_MAX_KINDS];
  int kind_count;
  char error[256];  ///< empty: the options are valid
};

/// Returns the bytes of which message sizes of this type are multiples.
size_t bench_unit(const struct bench_options* options, enum bench_type type);

/// Parses `argv` and sets every field of `options`. Check `options->error` first.
void bench_options_parse(struct bench_options* options, const struct bench_defaults* defaults,
                         enum bench_shape shape, int argc, char** argv);

/// Writes the text of --help to `text`, at most `size` bytes.
void bench_options_help(const struct bench_defaults* defaults, const char* program, enum bench_shape shape,
                        char* text, size_t size);

/// Returns "HOST", "PINNED", "DEVICE" or "MANAGED".
const char* bench_kind_name(enum bench_kind kind);

#endif
