// SPDX-License-Identifier: BSD-3-Clause
// Count and datatype of the messages of one size, by -T and -D; filling and checking of messages, gaps
// included.
#ifndef BENCH_COMMON_MESSAGE_H
#define BENCH_COMMON_MESSAGE_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/layout.h"

struct bench_run;

/// Describes a message, or each partition or block of a message.
struct bench_message {
  int count;
  MPI_Datatype type;
  size_t extent;  ///< bytes of memory, gaps included; offset of the next message
  bool made;      ///< `type` must be freed
};

/// Returns the datatype of the elements. Reductions use MPI_SIGNED_CHAR, since MPI_CHAR has no sum.
MPI_Datatype bench_datatype(const struct bench_run* run);

/// Returns the name of the datatype, such as "MPI_INT".
const char* bench_datatype_name(const struct bench_run* run);

/// Returns the extent in bytes of a message of `bytes` bytes of data.
size_t bench_extent(const struct bench_run* run, size_t bytes);

/// Sets run->message for messages of `bytes` bytes of data, a multiple of the period; destroys the message
/// before.
void bench_message_create(struct bench_run* run, size_t bytes);
void bench_message_destroy(struct bench_run* run);

/// Writes the pattern of `seed` to data and gaps.
void bench_message_fill(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                        uint64_t seed);

/// Writes the complement of the pattern, so that a check finds missing data and overwritten gaps.
void bench_message_poison(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                          uint64_t seed);

/// For an in-place message: writes the data of `outgoing`, and the gaps like bench_message_poison() with
/// `incoming`.
void bench_message_stage(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                         uint64_t outgoing, uint64_t incoming);

/// Compares data with the pattern and gaps with the complement; prints the first wrong byte on stderr.
bool bench_message_check(const struct bench_run* run, const struct bench_buffer* buffer, size_t offset,
                         uint64_t seed);

#endif
