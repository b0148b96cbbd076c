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
/// Errc::again: another process has the rank.
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup);

/// A singleton's connection to the mpiexec that it has started: only spawn(), the name service, abort() and
/// finalize(). Takes over the descriptor.
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect_to_server(int fd);

}  // namespace weft::launch::pmi
