// SPDX-License-Identifier: BSD-3-Clause
// Basic: the machine types of MPI's predefined datatypes (base/element/type.hpp), with their sizes and
// alignments.
#pragma once
#include "base/element/type.hpp"

namespace weft::datatype {

using element::Basic;
using element::BFloat16;
using element::Complex;
using element::Float128;
using element::Float8E4M3;
using element::Float8E5M2;
using element::Group;
using element::Half;
using element::Int128;
using element::kBasicCount;
using element::Pair;

/// Properties of a basic type; sizes, offsets and alignment in bytes.
struct BasicTraits {
  const char* name;
  int64_t size;    ///< data bytes, without the padding of a pair
  int64_t extent;  ///< distance between array elements
  int64_t alignment;
  Group group;
  int64_t value_size;    ///< pair: size of the value; otherwise `size`
  int64_t index_offset;  ///< pair: offset of the index; otherwise 0
};

[[nodiscard]] const BasicTraits& traits_of(Basic basic);

}  // namespace weft::datatype
