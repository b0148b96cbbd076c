// SPDX-License-Identifier: BSD-3-Clause
// Reductions: predefined operations as loops over arrays of one basic type. Elements are one extent apart;
// the padding of pairs is neither read nor written. No alignment is required.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/element/reduce.hpp"
#include "datatype/basic.hpp"

namespace weft::datatype {

using element::kReduceOpCount;
using element::ReduceOp;

/// result[i] = left[i] op right[i]; `result` is `right`, or overlaps neither array.
using ReduceFn = void (*)(const void* left, const void* right, void* result, size_t count);

/// The type as which elements of `basic` are reduced: characters (MPI_CHAR, MPI_CHARACTER) as C integers, an
/// extension of MPI 5.0 section 6.9.2 that MPICH and Open MPI have too.
[[nodiscard]] constexpr Basic reduction_type(Basic basic) {
  if (basic != Basic::character) return basic;
  return std::is_signed_v<char> ? Basic::int8 : Basic::uint8;
}

/// nullptr if the operation is not defined for the type (MPI 5.0 section 6.9.2 and reduction_type()). minloc
/// and maxloc: pairs (section 6.9.4); replace and no_op: all types (section 12.3.4).
[[nodiscard]] ReduceFn reduce_function(ReduceOp op, Basic basic);
/// The same function for vector instructions of a level below vector_levels(), the levels that the processor
/// has: 0 works on all processors, reduce_function() uses the highest. All give the same results.
[[nodiscard]] size_t vector_levels();
[[nodiscard]] ReduceFn reduce_function_for(size_t level, ReduceOp op, Basic basic);
[[nodiscard]] const char* name(ReduceOp op);

}  // namespace weft::datatype
