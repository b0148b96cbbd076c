// SPDX-License-Identifier: BSD-3-Clause
// Predefined types that have no name: the same handle for the same arguments, never freed.
#pragma once
#include "datatype/datatype.hpp"

namespace weft::datatype {

/// The one type that a query made with these contents; its numbers are `basic`.
[[nodiscard]] Made unnamed(Basic basic, Contents contents);

/// For selected_real_kind and selected_int_kind (MPI 5.0 section 19.1.9). A precision or range that is not
/// wanted is kUndefined.
[[nodiscard]] Made f90_real(int precision, int range);
[[nodiscard]] Made f90_complex(int precision, int range);
[[nodiscard]] Made f90_integer(int range);

/// A pair for MPI_MINLOC and MPI_MAXLOC, laid out as struct {value; index} (MPI 5.0 section 6.9.4); null when
/// there is none. Pairs that have a name are not known here.
[[nodiscard]] Made value_index(Datatype& value, Datatype& index);

}  // namespace weft::datatype
