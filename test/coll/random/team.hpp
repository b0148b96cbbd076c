// SPDX-License-Identifier: BSD-3-Clause
// Team: a communicator with its expected members and the expected edges of its topology.
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
  std::string history;               ///< how it was created
  // Edges of a topology, for each rank.
  std::vector<std::vector<int>> sources, destinations;
  bool cartesian = false;
  std::vector<int> dims, periods;

  [[nodiscard]] bool exists() const { return comm != MPI_COMM_NULL; }
  [[nodiscard]] bool inter() const { return !remote.empty(); }
  [[nodiscard]] bool has_topology() const { return !sources.empty(); }
  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int me() const { return members[static_cast<size_t>(rank)]; }
  /// World ranks of the peers of a collective.
  [[nodiscard]] const std::vector<int>& peers() const { return inter() ? remote : members; }
};

/// MPI_COMM_WORLD.
[[nodiscard]] Team world_team();
/// Derives a team in a random way; checks its groups. The team may not exist in this process.
[[nodiscard]] Team derive(const Team& from, Draw& draw);
/// Frees the communicator.
void disband(Team& team);

}  // namespace randomized
