// SPDX-License-Identifier: BSD-3-Clause
// PMIx client: the exchange through libpmix, for prterun, Open MPI's mpirun and srun --mpi=pmix. Values stay
// with the daemon of their owner's host until somebody asks for them.
#pragma once
#include <memory>

#include "launch/environment.hpp"
#include "launch/launch.hpp"

namespace weft::launch::pmix {

/// True when the variables of a PMIx launcher are there.
[[nodiscard]] bool offered(const Lookup& lookup);
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup);

}  // namespace weft::launch::pmix
