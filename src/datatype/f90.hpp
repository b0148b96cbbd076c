// SPDX-License-Identifier: BSD-3-Clause
// Types for Fortran's selected_real_kind and selected_int_kind (MPI 5.0 section 19.1.9): predefined, unnamed,
// same handle for same arguments. kUndefined: no requirement on precision or range.
#pragma once
#include "datatype/datatype.hpp"

namespace weft::datatype {

[[nodiscard]] DatatypeResult f90_real(int precision, int range);
[[nodiscard]] DatatypeResult f90_complex(int precision, int range);
[[nodiscard]] DatatypeResult f90_integer(int range);

}  // namespace weft::datatype
