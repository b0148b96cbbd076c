// SPDX-License-Identifier: BSD-3-Clause
// Team: a communicator, and what it has to be: its members, and the edges of its topology.
#pragma once
#include <mpi.h>

#include <string>
#include <vector>

#include "reference/draw.hpp"

namespace randomized {

struct Team {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  std::vector<int> members, remote;  ///< ranks in MPI_COMM_WORLD, in the order of the groups
  std::string history;               ///< how it was made
  // Of a topology, for each rank.
  std::vector<std::vector<int>> sources, destinations;
  bool cartesian = false;
  std::vector<int> dims, periods;

  [[nodiscard]] bool exists() const { return comm != MPI_COMM_NULL; }
  [[nodiscard]] bool inter() const { return !remote.empty(); }
  [[nodiscard]] bool has_topology() const { return !sources.empty(); }
  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int me() const { return members[static_cast<size_t>(rank)]; }
  /// Those that blocks go to or come from.
  [[nodiscard]] const std::vector<int>& peers() const { return inter() ? remote : members; }
};

/// MPI_COMM_WORLD.
[[nodiscard]] Team everyone();
/// A team made from another in some way; it may not exist here. Checks its groups.
[[nodiscard]] Team derive(const Team& from, Draw& draw);
/// Frees the communicator.
void disband(Team& team);

}  // namespace randomized
