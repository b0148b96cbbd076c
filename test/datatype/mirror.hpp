// SPDX-License-Identifier: BSD-3-Clause
// Recreates a datatype of the test's own copy of src/datatype with MPI constructors.
#pragma once
#include <mpi.h>

#include "datatype/datatype.hpp"

namespace weft::test {

/// Returns the MPI datatype; free it with free_mirror().
[[nodiscard]] MPI_Datatype mirror(const datatype::Datatype& type);
void free_mirror(MPI_Datatype type);

}  // namespace weft::test
