// SPDX-License-Identifier: BSD-3-Clause
// Completion of requests in MPI_Wait, MPI_Test and related functions.
// Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include "api/handles.hpp"
#include "core/request.hpp"

namespace weft::api {

using core::no_more_requests;

/// Completes an active request whose operation has finished: calls its query function and fills `status`. A
/// persistent request becomes inactive; another is freed and the handle set to MPI_REQUEST_NULL. Returns the
/// error of the operation.
[[nodiscard]] Status complete_request(MPI_Request* handle, core::Request& request, MPI_Status* status);

/// Returns true if completion only needs the status: no callback, no error, not persistent.
inline bool completes_trivially(const core::Request& request) {
  return request.kind != core::Request::Kind::generalized && !request.persistent && request.outcome.ok();
}

/// The request of a handle; null for MPI_REQUEST_NULL and inactive requests, an error for an invalid handle.
[[nodiscard]] Result<core::Request*> active_request(MPI_Request handle);

}  // namespace weft::api
