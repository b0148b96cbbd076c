// SPDX-License-Identifier: BSD-3-Clause
// PMIx client: exchange through libpmix, for prterun, Open MPI's mpirun and srun --mpi=pmix. Values stay with
// the daemon of their owner's host until a process requests them.
#pragma once
#include <memory>

#include "launch/environment.hpp"
#include "launch/launch.hpp"

namespace weft::launch::pmix {

/// Returns whether the variables of a PMIx launcher are set.
[[nodiscard]] bool is_available(const Lookup& lookup);
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup);

}  // namespace weft::launch::pmix
