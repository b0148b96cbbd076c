// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of TYPE(*), DIMENSION(..) arguments (Fortran 2018 section 18.5). Only members that gfortran and
// flang keep at the same place are declared; rank is the first byte after the version in both.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::fortran {

struct Dimension {
  ptrdiff_t lower, extent, stride;  ///< stride in bytes; extent -1: the last one of an assumed-size array
};

/// The layout of CFI_cdesc_t.
struct Descriptor {
  void* base;  ///< the first element
  size_t element_bytes;
  int version;
  int8_t rank;
  int8_t compilers_own[3];  ///< type and attribute, whose order differs
  Dimension dimensions[15];
};
static_assert(offsetof(Descriptor, rank) == 20 && offsetof(Descriptor, dimensions) == 24);

/// Returns true if the elements are adjacent in memory. False for some empty arrays.
inline bool contiguous(const Descriptor& array) {
  auto expected = static_cast<ptrdiff_t>(array.element_bytes);
  for (int i = 0; i < array.rank; ++i) {
    const Dimension& dimension = array.dimensions[i];
    if (dimension.stride != expected && dimension.extent != 1) return false;
    expected *= dimension.extent;
  }
  return true;
}

}  // namespace weft::fortran
