// SPDX-License-Identifier: BSD-3-Clause
// Requests as the application sees them: ending a completed one, and generalized requests.
// Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include "api/handles.hpp"
#include "core/request.hpp"

namespace weft::api {

using core::no_more_requests;

/// Ends a completed, active request: runs its query function, fills `status`, then frees it and sets the
/// handle to MPI_REQUEST_NULL, or makes it inactive when it is persistent. Returns the error the operation
/// ended with.
[[nodiscard]] Status retire(MPI_Request* handle, core::Request& request, MPI_Status* status);

/// A request whose end needs nothing but its status: no callback, no error, not to be started again.
inline bool ends_plainly(const core::Request& request) {
  return request.kind != core::Request::Kind::generalized && !request.persistent && request.outcome.ok();
}

/// The request of a handle: null for MPI_REQUEST_NULL and inactive persistent requests, an error for bad
/// handles.
[[nodiscard]] Result<core::Request*> active_request(MPI_Request handle);

}  // namespace weft::api
