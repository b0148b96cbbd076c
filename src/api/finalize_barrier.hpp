// SPDX-License-Identifier: BSD-3-Clause
// The barrier of MPI_Finalize. Threading: under the instance lock.
#pragma once
#include "core/instance.hpp"

namespace weft::api {

/// Flushes buffered sends, then waits until all processes of MPI_COMM_WORLD have called it. Only the first
/// rank of each host sends to other hosts. Ends when a process has failed: the survivors leave at any time,
/// and a rank that has left takes no messages.
void drain_world(core::Instance& instance);

}  // namespace weft::api
