// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 client: exchange over the descriptor (PMI_FD) or port (PMI_PORT) of a launcher: Weft's mpiexec,
// Hydra, Slurm's pmi2.
#pragma once
#include <memory>

#include "launch/environment.hpp"
#include "launch/launch.hpp"

namespace weft::launch::pmi {

/// Returns whether the variables of a PMI-1 launcher are set.
[[nodiscard]] bool is_available(const Lookup& lookup);
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup);

}  // namespace weft::launch::pmi
