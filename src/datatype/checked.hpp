// SPDX-License-Identifier: BSD-3-Clause
// Checked: 64-bit arithmetic that records overflow, so that a constructor checks once at its end.
#pragma once
#include <cstdint>

namespace weft::datatype {

using Count = int64_t;  ///< counts in elements; displacements, extents and sizes in bytes

class Checked {
 public:
  [[nodiscard]] Count add(Count a, Count b) {
    Count r;
    overflow_ |= __builtin_add_overflow(a, b, &r);
    return r;
  }
  [[nodiscard]] Count sub(Count a, Count b) {
    Count r;
    overflow_ |= __builtin_sub_overflow(a, b, &r);
    return r;
  }
  [[nodiscard]] Count mul(Count a, Count b) {
    Count r;
    overflow_ |= __builtin_mul_overflow(a, b, &r);
    return r;
  }
  [[nodiscard]] bool overflow() const { return overflow_; }

 private:
  bool overflow_ = false;
};

}  // namespace weft::datatype
