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

/// Creation of the MPI window (-w); the order of bench_flavor_names.
enum bench_flavor { BENCH_WIN_CREATE, BENCH_WIN_ALLOCATE, BENCH_WIN_DYNAMIC };
extern const char* const bench_flavor_names[];

/// Synchronisation of one-sided operations (-s); the order of bench_sync_names. BENCH_FLUSH and
/// BENCH_FLUSH_LOCAL flush each operation within one epoch of MPI_Win_lock_all, the others make an epoch for
/// each operation.
enum bench_sync { BENCH_LOCK, BENCH_FLUSH, BENCH_FLUSH_LOCAL, BENCH_LOCK_ALL, BENCH_PSCW, BENCH_FENCE };
extern const char* const bench_sync_names[];

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
  bool one_sided;    ///< has -w and -s: MPI window and synchronisation
  bool one_size;     ///< -m cannot change the size
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
  enum bench_flavor flavor;
  enum bench_sync sync;
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

/// Stores an error message, unless there is one already: later errors are usually consequences.
void bench_options_fail(struct bench_options* options, const char* format, ...);

/// Parses a byte count with an optional suffix K, M or G (powers of 1024) up to `*end`.
bool bench_parse_bytes(const char* text, const char** end, size_t* value);

/// Parses the argument of -m: [MIN:]MAX or MIN: like the Ohio State programs; or a list.
void bench_sizes_parse(struct bench_options* options, const char* text);

/// Checks the sizes against the other options, and lists them.
void bench_sizes_finish(struct bench_options* options, const struct bench_defaults* defaults);

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
