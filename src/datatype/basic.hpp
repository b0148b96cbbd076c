// SPDX-License-Identifier: BSD-3-Clause
// Basic: the machine types behind MPI's predefined datatypes (base/element/type.hpp), and what moving and
// counting need to know of them.
#pragma once
#include "base/element/type.hpp"

namespace weft::datatype {

using element::Basic;
using element::BFloat16;
using element::Complex;
using element::Float128;
using element::Group;
using element::Half;
using element::Int128;
using element::kBasics;
using element::Pair;

/// What moving and counting need to know of a basic type. Sizes in bytes; `first` is the size of a pair's
/// value.
struct BasicFacts {
  const char* name;
  int64_t size;    ///< bytes of data: a pair's padding does not count
  int64_t extent;  ///< distance between array elements
  int64_t alignment;
  Group group;
  int64_t first;      ///< pair: bytes of the value; otherwise size
  int64_t second_at;  ///< pair: displacement of the index; otherwise 0
};

[[nodiscard]] const BasicFacts& facts(Basic basic);

}  // namespace weft::datatype
