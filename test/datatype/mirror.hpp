// SPDX-License-Identifier: BSD-3-Clause
// A datatype of the test's own copy of src/datatype, made again through MPI's constructors.
#pragma once
#include <mpi.h>

#include "datatype/datatype.hpp"

namespace weft::test {

/// To be freed with free_mirror().
[[nodiscard]] MPI_Datatype mirror(const datatype::Datatype& type);
void free_mirror(MPI_Datatype type);

}  // namespace weft::test
