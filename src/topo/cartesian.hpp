// SPDX-License-Identifier: BSD-3-Clause
// Cartesian topologies (MPI 5.0 sections 8.5.1 to 8.5.7): a grid of ranks in row-major order.
// Threading: under the instance lock.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "coll/construct.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

class Cartesian final : public core::Topology {
 public:
  /// `rank`: this process's, below the product of `dims`.
  Cartesian(std::vector<int> dims, std::vector<bool> periods, int rank);
  [[nodiscard]] std::unique_ptr<Topology> clone() const override;

  [[nodiscard]] int dimensions() const { return static_cast<int>(dims.size()); }
  [[nodiscard]] std::vector<int> coordinates(int rank) const;
  /// Coordinates of periodic dimensions may be any; outside of others they are Errc::arg.
  [[nodiscard]] Result<int> rank_of(std::span<const int> coordinates) const;
  /// The ranks `displacement` below and above this process, MPI_PROC_NULL outside of the grid.
  [[nodiscard]] std::pair<int, int> shift(int direction, int displacement) const;

  const std::vector<int> dims;
  const std::vector<bool> periods;
  const int rank;

 private:
  /// The rank at this process's coordinates, `distance` further in one dimension.
  [[nodiscard]] int neighbor(int direction, int64_t distance) const;
};

/// Processes of a grid. Errc::dims: negative, or too many for an int.
[[nodiscard]] Result<int> grid_size(std::span<const int> dims);
/// MPI_Cart_create; nullptr: this process is not in the grid. The ranks keep their order.
[[nodiscard]] coll::Made create_cartesian(core::Communicator& parent, std::vector<int> dims,
                                          std::vector<bool> periods);
/// MPI_Cart_sub: the grid of the dimensions that remain.
[[nodiscard]] coll::Made create_subgrid(core::Communicator& parent, const Cartesian& grid,
                                        std::span<const int> remain);

}  // namespace weft::topo
