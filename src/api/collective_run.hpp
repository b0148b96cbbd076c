// SPDX-License-Identifier: BSD-3-Clause
// The three forms in which a prepared collective is run.
#pragma once
#include <mpi.h>

#include "api/collective_arguments.hpp"
#include "base/result.hpp"

namespace weft::api {

[[nodiscard]] Status run(prepare::Collective&& prepared);
[[nodiscard]] Status start(prepare::Collective&& prepared, MPI_Request* request);
[[nodiscard]] Status keep(prepare::Collective&& prepared, MPI_Request* request);

}  // namespace weft::api
