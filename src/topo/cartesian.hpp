// SPDX-License-Identifier: BSD-3-Clause
// Cartesian topologies (MPI 5.0 sections 8.5.1 to 8.5.7): a grid of ranks in row-major order.
// Threading: under the instance lock.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "coll/construct/communicators.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

class Cartesian final : public core::Topology {
 public:
  /// `rank`: rank of this process, less than the product of `dims`.
  Cartesian(std::vector<int> dims, std::vector<bool> periods, int rank);
  [[nodiscard]] std::unique_ptr<Topology> clone() const override;

  [[nodiscard]] int dimensions() const { return static_cast<int>(dims.size()); }
  [[nodiscard]] std::vector<int> coordinates(int rank) const;
  /// Coordinates of periodic dimensions wrap around. Errc::arg: outside a dimension that is not periodic.
  [[nodiscard]] Result<int> rank_of(std::span<const int> coordinates) const;
  /// The ranks `displacement` below and above this process; MPI_PROC_NULL outside the grid.
  [[nodiscard]] std::pair<int, int> shift(int direction, int displacement) const;

  const std::vector<int> dims;
  const std::vector<bool> periods;
  const int rank;

 private:
  /// The rank at `distance` from this process in one dimension.
  [[nodiscard]] int neighbor(int direction, int64_t distance) const;
};

/// Number of processes in a grid. Errc::dims: not positive, or more than INT_MAX in total.
[[nodiscard]] Result<int> grid_size(std::span<const int> dims);
/// MPI_Cart_create; nullptr if this process is not in the grid. Ranks are not reordered.
[[nodiscard]] coll::NewCommunicator create_cartesian(core::Communicator& parent, std::vector<int> dims,
                                                     std::vector<bool> periods);
/// MPI_Cart_sub: the grid of the dimensions with `remain` nonzero.
[[nodiscard]] coll::NewCommunicator create_subgrid(core::Communicator& parent, const Cartesian& grid,
                                                   std::span<const int> remain);

}  // namespace weft::topo
