// SPDX-License-Identifier: BSD-3-Clause
// Helper of the functions that create datatypes.
#pragma once
#include <mpi.h>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::api {

/// Sets `handle` to a new type, or returns its error.
Status return_datatype(datatype::DatatypeResult made, MPI_Datatype* handle);

}  // namespace weft::api
