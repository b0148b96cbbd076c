// SPDX-License-Identifier: BSD-3-Clause
// Status: layout of a Completion in MPI_Status.
#pragma once
#include <mpi.h>

#include <cstring>

#include "api/status_layout.hpp"
#include "core/request.hpp"

namespace weft::api {

/// Fills all fields except MPI_ERROR, which functions with a single status must not change. MPI_STATUS_IGNORE
/// is allowed.
inline void fill(MPI_Status* status, const core::Completion& completion) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = completion.source;
  status->MPI_TAG = completion.tag;
  std::memcpy(&status->MPI_internal[0], &completion.bytes, sizeof completion.bytes);
  status->MPI_internal[2] = completion.cancelled ? 1 : 0;
  status->MPI_internal[3] = status->MPI_internal[4] = 0;
}
/// Fills the empty status of null and inactive requests, including MPI_ERROR (MPI 5.0 section 3.7.3).
inline void fill_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  fill(status, core::Completion{});
  status->MPI_ERROR = MPI_SUCCESS;
}

/// For generalized requests: converts the status that the query function filled.
inline core::Completion completion_of(const MPI_Status& status) {
  return {status.MPI_SOURCE, status.MPI_TAG, bytes_of(status), cancelled(status)};
}

}  // namespace weft::api
