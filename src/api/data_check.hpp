// SPDX-License-Identifier: BSD-3-Clause
// Checks of (buffer, count, datatype) in the generated entry points: the size fits 64 bits, the elements fit
// an address space, and no data lies at a null address. Below api/, products of counts and sizes do not
// overflow.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <limits>

#include "api/counts.hpp"
#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::api {

/// Largest span of a buffer in bytes. User addresses have at most 56 bits on the processors that Weft
/// supports.
inline constexpr MPI_Count kMaxSpan = MPI_Count{1} << 56;

/// count * blocks; the largest MPI_Count on overflow. Neither is negative.
inline MPI_Count times(MPI_Count count, MPI_Count blocks) {
  MPI_Count product;
  return __builtin_mul_overflow(count, blocks, &product) ? std::numeric_limits<MPI_Count>::max() : product;
}

/// Returns false if `count` elements do not fit an address space, packed or in their layout.
[[nodiscard]] bool valid_size(MPI_Count count, const datatype::Datatype& type);
/// valid_data() for layouts with gaps and for null addresses.
[[nodiscard]] bool valid_layout(const void* buffer, MPI_Count count, const datatype::Datatype& type);
/// Returns false if `count` elements cannot be at `buffer`. A null address is MPI_BOTTOM for types that hold
/// absolute addresses.
[[nodiscard]] inline bool valid_data(const void* buffer, MPI_Count count, const datatype::Datatype& type) {
  MPI_Count bytes;
  if (buffer != nullptr && type.contiguous()) [[likely]]
    return !__builtin_mul_overflow(count, type.size(), &bytes) && bytes <= kMaxSpan;
  return valid_layout(buffer, count, type);
}

/// Largest element in bytes of which any int count spans at most kMaxSpan.
inline constexpr MPI_Count kMaxSizeForIntCounts = kMaxSpan >> 31;
/// The same for an int count, without a product for elements of ordinary size.
[[nodiscard]] inline bool valid_data(const void* buffer, int count, const datatype::Datatype& type) {
  if (buffer != nullptr && type.contiguous() && type.size() <= kMaxSizeForIntCounts) [[likely]]
    return true;
  return valid_layout(buffer, count, type);
}

/// Sum of the first n counts; the largest MPI_Count on overflow. None is negative.
[[nodiscard]] MPI_Count sum_of(const CountArray& counts, int n);

/// Index of the first block that is not valid data at its displacement, or with which the sum of all sizes
/// exceeds 64 bits; n if there is none. Displacements are in extents of `type`; with `types` in bytes.
[[nodiscard]] size_t find_bad_block(const void* buffer, const CountArray& counts,
                                    const CountArray& displacements, const datatype::Datatype& type,
                                    size_t n);
[[nodiscard]] size_t find_bad_block(const void* buffer, const CountArray& counts,
                                    const CountArray& displacements, const DatatypeArray& types, size_t n);

[[gnu::cold]] Error null_buffer(const char* name);
/// The error of data for which valid_data() is false.
[[gnu::cold]] Error bad_data(const char* buffer_name, const char* count_name, MPI_Count count,
                             const datatype::Datatype& type, MPI_Count blocks = 1);
/// The error of block `index` that find_bad_block() returned.
[[gnu::cold]] Error bad_block(const char* buffer_name, const void* buffer, const char* counts_name,
                              const CountArray& counts, const CountArray& displacements,
                              const datatype::Datatype& type, size_t index);
[[gnu::cold]] Error bad_block(const char* buffer_name, const void* buffer, const char* counts_name,
                              const CountArray& counts, const CountArray& displacements,
                              const DatatypeArray& types, size_t index);

}  // namespace weft::api
