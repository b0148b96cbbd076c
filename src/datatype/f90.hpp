// SPDX-License-Identifier: BSD-3-Clause
// Types for Fortran's selected_real_kind and selected_int_kind (MPI 5.0 section 19.1.9): predefined, unnamed,
// the same handle for the same arguments. A precision or range that is not wanted is kUndefined.
#pragma once
#include "datatype/datatype.hpp"

namespace weft::datatype {

[[nodiscard]] Made f90_real(int precision, int range);
[[nodiscard]] Made f90_complex(int precision, int range);
[[nodiscard]] Made f90_integer(int range);

}  // namespace weft::datatype
