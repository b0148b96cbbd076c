// SPDX-License-Identifier: BSD-3-Clause
// Connection: the descriptor of a process for its PMI-1 launcher, of which one process of a rank has the use
// at a time, and, under Weft's mpiexec, the way back to it if a shell or a wrapper has closed that
// descriptor.
#pragma once
#include <optional>
#include <utility>

#include "launch/environment.hpp"
#include "launch/launch.hpp"

namespace weft::launch::pmi {

struct Connection {
  int fd;  ///< close-on-exec
  bool weft_mpiexec = false;
  std::optional<std::pair<int, int>> rank_of_size{};  ///< rank and size, if mpiexec has told them
};

/// Returns whether the variables name a descriptor, or Weft's mpiexec can tell what they lack.
[[nodiscard]] bool has_connection(const Lookup& lookup);

/// Errc::again: another process has the rank.
[[nodiscard]] Result<Connection> open_connection(const Lookup& lookup);

/// The error of a process whose rank the process `pid` (0: unknown) has.
[[nodiscard]] Error rank_in_use(int pid);

/// An error if Weft's mpiexec has started this process, but a wrapper has removed its variables: the process
/// still has the descriptor.
[[nodiscard]] Status check_variables_kept(const Lookup& lookup);

}  // namespace weft::launch::pmi
