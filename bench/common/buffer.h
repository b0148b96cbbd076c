// SPDX-License-Identifier: BSD-3-Clause
// Message buffers of every kind, and the patterns by which they are validated.
// A failing allocation or copy prints the reason and ends the job: a benchmark cannot go on without it.
#ifndef BENCH_COMMON_BUFFER_H
#define BENCH_COMMON_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/options.h"

/// Bytes behind the message that nobody may write.
enum { BENCH_GUARD = 64 };

struct bench_buffer {
  enum bench_kind kind;
  char* data;       ///< what MPI is given
  size_t capacity;  ///< bytes, without the guard
};

/// Allocates `capacity` bytes and a guard, all bytes set to `value`.
void bench_buffer_create(struct bench_buffer* buffer, enum bench_kind kind, size_t capacity, int value);
void bench_buffer_destroy(struct bench_buffer* buffer);

/// Copies from and to ordinary host memory, whatever the kind.
void bench_buffer_write(struct bench_buffer* buffer, size_t offset, const void* from, size_t bytes);
void bench_buffer_read(const struct bench_buffer* buffer, size_t offset, void* to, size_t bytes);

/// Writes the pattern of `seed`.
void bench_buffer_fill(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// Writes the complement of the pattern of `seed`: every byte that is not overwritten is then wrong.
void bench_buffer_poison(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// Writes the pattern of `data` where `layout` has data, and the complement of that of `gaps` between.
void bench_buffer_stage(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t data,
                        uint64_t gaps, const struct bench_layout* layout, size_t element);

/// Marks the BENCH_GUARD bytes behind `bytes`.
void bench_buffer_guard(struct bench_buffer* buffer, size_t bytes);

/// Compares with the pattern of `seed`; says on stderr which byte is wrong first.
bool bench_buffer_check(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// The same, where the gaps of `layout` with elements of `element` bytes must hold the complement.
bool bench_buffer_check_layout(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed,
                               const struct bench_layout* layout, size_t element);

/// Whether the marked bytes behind `bytes` are untouched.
bool bench_buffer_check_guard(const struct bench_buffer* buffer, size_t bytes);

/// One number out of what makes a message different from the others.
uint64_t bench_seed(int source, int destination, size_t bytes, long iteration, int slot);

#endif
