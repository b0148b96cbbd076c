// SPDX-License-Identifier: BSD-3-Clause
// The messages of one size as MPI sees them: count and datatype by -T and -D; and how they are filled and
// checked, gaps included.
#ifndef BENCH_COMMON_MESSAGE_H
#define BENCH_COMMON_MESSAGE_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/layout.h"

struct bench_run;

/// One message, or each part or block of one.
struct bench_message {
  int count;
  MPI_Datatype type;
  size_t extent;  ///< bytes of memory, gaps included: where the next one may begin
  bool made;      ///< `type` is to be freed
};

/// The elements' datatype. MPI_CHAR is for letters and has no sums: there it is MPI_SIGNED_CHAR.
MPI_Datatype bench_datatype(const struct bench_run* run);

/// Its name, "MPI_INT".
const char* bench_datatype_name(const struct bench_run* run);

/// Memory of a message of `bytes` bytes of data.
size_t bench_extent(const struct bench_run* run, size_t bytes);

/// Sets run->message for messages of `bytes` bytes of data, whole periods; the last one is destroyed.
void bench_message_create(struct bench_run* run, size_t bytes);
void bench_message_destroy(struct bench_run* run);

/// Writes the pattern of `seed` to data and gaps.
void bench_message_fill(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                        uint64_t seed);

/// Writes its complement: data that does not arrive is then wrong, and so is a gap that is written.
void bench_message_poison(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                          uint64_t seed);

/// For a message that is input and result in one: writes the data of `outgoing`, and the gaps as
/// bench_message_poison() does with `incoming`.
void bench_message_stage(const struct bench_run* run, struct bench_buffer* buffer, size_t offset,
                         uint64_t outgoing, uint64_t incoming);

/// Compares data with the pattern and gaps with the complement; says on stderr which byte is wrong first.
bool bench_message_check(const struct bench_run* run, const struct bench_buffer* buffer, size_t offset,
                         uint64_t seed);

#endif
