// SPDX-License-Identifier: BSD-3-Clause
// Wait communicator: describes a communicator for readers of waits.
#pragma once
#include "base/wait_table.hpp"
#include "core/communicator.hpp"

namespace weft::core {

/// Rank of a process in MPI_COMM_WORLD; -1: of another job.
[[nodiscard]] int world_rank(const Communicator& comm, int rank);

/// Stores id, name and members of a communicator in a record; null: none.
void describe_communicator(wait_table::Record& record, const Communicator* comm);

}  // namespace weft::core
