// SPDX-License-Identifier: BSD-3-Clause
// Element type (-T) and memory layout (-D) of messages. Independent of MPI.
#ifndef BENCH_COMMON_LAYOUT_H
#define BENCH_COMMON_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>

/// Element types; their names on the command line are mpi_char, mpi_int and mpi_float.
enum bench_type { BENCH_CHAR, BENCH_INT, BENCH_FLOAT, BENCH_TYPES };

/// Returns the bytes of an element.
size_t bench_type_bytes(enum bench_type type);

/// Returns "mpi_char" and so on.
const char* bench_type_word(enum bench_type type);

enum bench_form {
  BENCH_PLAIN,       ///< contiguous elements, sent with a count
  BENCH_CONTIGUOUS,  ///< contiguous elements as one derived datatype
  BENCH_VECTOR,      ///< blocks at equal distances
  BENCH_INDEXED,     ///< blocks listed in a file, repeated
};

enum { BENCH_MAX_BLOCKS = 1024, BENCH_MAX_STRIDE = 1 << 20 };

/// Block of `length` contiguous elements at displacement `at` in the period, in elements.
struct bench_block {
  int at, length;
};

/// Layout of a message: a period of blocks that repeats; the last period ends with its last block.
struct bench_layout {
  enum bench_form form;
  const char* text;                             ///< argument of -D; NULL: plain
  int data;                                     ///< number of elements in a period
  int period;                                   ///< extent of a period in elements
  struct bench_block blocks[BENCH_MAX_BLOCKS];  ///< without overlap
  int block_count;
};

/// Sets the layout to contiguous elements.
void bench_layout_plain(struct bench_layout* layout);

/// Parses cont, vect:STRIDE:BLOCKLENGTH or indx:FILE. On failure `error` (of `size` bytes) contains the
/// reason.
bool bench_layout_parse(struct bench_layout* layout, const char* text, char* error, size_t size);

/// Returns the extent in bytes, gaps included, of `bytes` bytes of data.
size_t bench_layout_extent(const struct bench_layout* layout, size_t element, size_t bytes);

/// Inverts the bytes of the gaps in the image of a message of `extent` bytes.
void bench_layout_invert_gaps(const struct bench_layout* layout, size_t element, char* image, size_t extent);

/// Returns whether a byte of a message is data and not a gap.
bool bench_layout_holds(const struct bench_layout* layout, size_t element, size_t byte);

#endif
