// SPDX-License-Identifier: BSD-3-Clause
// What the datatype entry points share.
#pragma once
#include <mpi.h>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::api {

/// Gives the application the handle of a new type.
Status hand_out(datatype::Made made, MPI_Datatype* handle);

}  // namespace weft::api
