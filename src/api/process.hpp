// SPDX-License-Identifier: BSD-3-Clause
// The communicator with the processes that have spawned this job (MPI_Comm_get_parent).
// Threading: under the instance lock.
#pragma once
#include "core/communicator.hpp"

namespace weft::api {

/// `parent`: null for a job that was not spawned. The application frees it.
void set_parent(core::Communicator* parent);
[[nodiscard]] bool is_parent(const core::Communicator& comm);
/// To be called for every communicator that the application frees.
void forget_parent(const core::Communicator& comm);

}  // namespace weft::api
