// SPDX-License-Identifier: BSD-3-Clause
// Message buffers of every memory kind, and the patterns that validate them. A failed allocation or copy
// prints the reason and ends the job.
#ifndef BENCH_COMMON_BUFFER_H
#define BENCH_COMMON_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/options.h"

/// Bytes behind the message that must not be written.
enum { BENCH_GUARD = 64 };

struct bench_buffer {
  enum bench_kind kind;
  char* data;       ///< the address passed to MPI
  size_t capacity;  ///< bytes, without the guard
};

/// Allocates `capacity` bytes and a guard, all bytes set to `value`.
void bench_buffer_create(struct bench_buffer* buffer, enum bench_kind kind, size_t capacity, int value);
void bench_buffer_destroy(struct bench_buffer* buffer);

/// Copies from and to pageable host memory, for every kind.
void bench_buffer_write(struct bench_buffer* buffer, size_t offset, const void* from, size_t bytes);
void bench_buffer_read(const struct bench_buffer* buffer, size_t offset, void* to, size_t bytes);

/// Writes the pattern of `seed`.
void bench_buffer_fill(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// Writes the complement of the pattern of `seed`, so that a check fails on every byte not overwritten.
void bench_buffer_poison(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// Writes the pattern of `data` to the data of `layout`, and the complement of the pattern of `gaps` to its
/// gaps.
void bench_buffer_stage(struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t data,
                        uint64_t gaps, const struct bench_layout* layout, size_t element);

/// Marks the BENCH_GUARD bytes behind `bytes`.
void bench_buffer_guard(struct bench_buffer* buffer, size_t bytes);

/// Compares with the pattern of `seed`; prints the first wrong byte on stderr.
bool bench_buffer_check(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed);

/// The same for `layout` with elements of `element` bytes, whose gaps must contain the complement.
bool bench_buffer_check_layout(const struct bench_buffer* buffer, size_t offset, size_t bytes, uint64_t seed,
                               const struct bench_layout* layout, size_t element);

/// Returns whether the guard bytes behind `bytes` are unchanged.
bool bench_buffer_check_guard(const struct bench_buffer* buffer, size_t bytes);

/// Returns a number that identifies a message, as the seed of its pattern.
uint64_t bench_seed(int source, int destination, size_t bytes, long iteration, int slot);

#endif
