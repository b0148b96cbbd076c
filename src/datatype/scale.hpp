// SPDX-License-Identifier: BSD-3-Clause
// Scaling: host loops that multiply or divide arrays of one basic type. No alignment is required.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/element/scale.hpp"
#include "datatype/basic.hpp"

namespace weft::datatype {

/// Whether elements of the type are numbers, for which the other functions are defined.
[[nodiscard]] constexpr bool is_number(Group group) {
  return group == Group::c_integer || group == Group::fortran_integer || group == Group::floating ||
         group == Group::multi_language || group == Group::complex;
}
/// to[i] = from[i] * *factor; `to` is `from`, or overlaps nothing.
void multiply(Basic basic, const void* from, const void* factor, void* to, size_t count);
/// to[i] = from[i] / divisor; integers are rounded towards zero.
void divide(Basic basic, const void* from, uint32_t divisor, void* to, size_t count);

}  // namespace weft::datatype
