// SPDX-License-Identifier: BSD-3-Clause
// What messages consist of, as -T and -D name it: elements of a type, and where they lie in memory. Knows
// nothing of MPI.
#ifndef BENCH_COMMON_LAYOUT_H
#define BENCH_COMMON_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>

/// Elements; the names of the command line are mpi_char, mpi_int and mpi_float.
enum bench_type { BENCH_CHAR, BENCH_INT, BENCH_FLOAT, BENCH_TYPES };

/// Bytes of an element.
size_t bench_type_bytes(enum bench_type type);

/// "mpi_char" and so on.
const char* bench_type_word(enum bench_type type);

enum bench_form {
  BENCH_PLAIN,       ///< elements one after another, as a count
  BENCH_CONTIGUOUS,  ///< the same as one derived datatype
  BENCH_VECTOR,      ///< blocks at equal distances
  BENCH_INDEXED,     ///< pieces that a file lists, again and again
};

enum { BENCH_MAX_PIECES = 1024, BENCH_MAX_STRIDE = 1 << 20 };

/// Elements beside each other, `at` elements behind the start of their period.
struct bench_piece {
  int at, length;
};

/// Where the elements of a message lie: pieces that repeat; the last period ends with its last piece.
struct bench_layout {
  enum bench_form form;
  const char* text;                             ///< as typed; NULL: plain
  int data;                                     ///< elements that one period holds
  int period;                                   ///< elements from the start of one to the start of the next
  struct bench_piece pieces[BENCH_MAX_PIECES];  ///< none overlaps another
  int piece_count;
};

/// Elements one after another.
void bench_layout_plain(struct bench_layout* layout);

/// Parses cont, vect:STRIDE:BLOCKLENGTH or indx:FILE. On failure `error` (of `size` bytes) says why.
bool bench_layout_parse(struct bench_layout* layout, const char* text, char* error, size_t size);

/// Memory that `bytes` bytes of data span, gaps included, in bytes.
size_t bench_layout_extent(const struct bench_layout* layout, size_t element, size_t bytes);

/// Inverts the bytes of the gaps in the image of a message that spans `extent` bytes.
void bench_layout_invert_gaps(const struct bench_layout* layout, size_t element, char* image, size_t extent);

/// Whether data lies at a byte of a message.
bool bench_layout_holds(const struct bench_layout* layout, size_t element, size_t byte);

#endif
