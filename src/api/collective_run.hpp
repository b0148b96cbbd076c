// SPDX-License-Identifier: BSD-3-Clause
// Execution of a prepared collective: blocking, nonblocking, persistent.
#pragma once
#include <mpi.h>

#include "api/collective_arguments.hpp"
#include "base/result.hpp"

namespace weft::api {

/// Blocking.
[[nodiscard]] Status run(prepare::Collective&& prepared);
/// Nonblocking.
[[nodiscard]] Status start(prepare::Collective&& prepared, MPI_Request* request);
/// Creates an inactive persistent request.
[[nodiscard]] Status init_persistent(prepare::Collective&& prepared, MPI_Request* request);

}  // namespace weft::api
