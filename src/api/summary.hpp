// SPDX-License-Identifier: BSD-3-Clause
// The summary that MPI_Finalize prints if WEFT_STATS=on: calls, bytes, time in MPI by call and by rank, and
// waits by their cause, in at most 40 lines.
#pragma once
#include "core/communicator.hpp"

namespace weft::api {

/// Collective over MPI_COMM_WORLD: rank 0 prints. Does nothing unless base/stats is on, or if a process has
/// failed.
void print_summary(core::Communicator& world);

}  // namespace weft::api
