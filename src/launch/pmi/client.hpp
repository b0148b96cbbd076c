// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 client: the exchange over the descriptor (PMI_FD) or port (PMI_PORT) that a launcher provides.
// Speaks to Weft's mpiexec and to Hydra.
#pragma once
#include <memory>

#include "launch/environment.hpp"
#include "launch/launch.hpp"

namespace weft::launch::pmi {

/// True when the variables of a PMI-1 launcher are there.
[[nodiscard]] bool offered(const Lookup& lookup);
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup);

}  // namespace weft::launch::pmi
