// SPDX-License-Identifier: BSD-3-Clause
// Cartesian topologies: ranks, coordinates, and the creation of their communicators.
#include "topo/cartesian.hpp"

#include <climits>
#include <string>

#include "p2p/message/transfer.hpp"
#include "topo/create.hpp"

namespace weft::topo {

Cartesian::Cartesian(std::vector<int> grid, std::vector<bool> wrapped, int own)
    : Topology(Kind::cartesian), dims(std::move(grid)), periods(std::move(wrapped)), rank(own) {
  for (int i = 0; i < dimensions(); ++i)
    for (const int distance : {-1, 1}) sources.push_back(neighbor(i, distance));
  destinations = sources;
}

std::unique_ptr<core::Topology> Cartesian::clone() const {
  return std::make_unique<Cartesian>(dims, periods, rank);
}

std::vector<int> Cartesian::coordinates(int of) const {
  std::vector<int> result(dims.size());
  for (size_t i = dims.size(); i-- > 0; of /= dims[i]) result[i] = of % dims[i];
  return result;
}

Result<int> Cartesian::rank_of(std::span<const int> at) const {
  int result = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool outside = at[i] < 0 || at[i] >= dims[i];
    if (outside && !periods[i])
      return Error(Errc::arg, "coords[" + std::to_string(i) + "] = " + std::to_string(at[i]) +
                                  " is outside a dimension of size " + std::to_string(dims[i]) +
                                  " that is not periodic: use 0 to " + std::to_string(dims[i] - 1));
    result = result * dims[i] + (at[i] % dims[i] + dims[i]) % dims[i];
  }
  return result;
}

int Cartesian::neighbor(int direction, int64_t distance) const {
  const auto d = static_cast<size_t>(direction);
  int64_t stride = 1;
  for (size_t i = d + 1; i < dims.size(); ++i) stride *= dims[i];
  const int64_t own = rank / stride % dims[d];
  int64_t other = own + distance;
  if (periods[d])
    other = (other % dims[d] + dims[d]) % dims[d];
  else if (other < 0 || other >= dims[d])
    return p2p::kProcNull;
  return static_cast<int>(rank + (other - own) * stride);
}

std::pair<int, int> Cartesian::shift(int direction, int displacement) const {
  return {neighbor(direction, -int64_t{displacement}), neighbor(direction, displacement)};
}

Result<int> grid_size(std::span<const int> dims) {
  int64_t size = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] <= 0)
      return Error(Errc::dims,
                   "dims[" + std::to_string(i) + "] = " + std::to_string(dims[i]) + ": must be positive");
    size *= dims[i];
    if (size > INT_MAX) return Error(Errc::dims, "the grid of dims has more processes than INT_MAX");
  }
  return static_cast<int>(size);
}

coll::NewCommunicator create_cartesian(core::Communicator& parent, std::vector<int> dims,
                                       std::vector<bool> periods) {
  auto size = grid_size(dims);
  if (!size) return std::move(size).error();
  coll::NewCommunicator made = first_ranks(parent, *size, "the grid of dims");
  if (made.ok() && *made != nullptr)
    (*made)->topology = std::make_unique<Cartesian>(std::move(dims), std::move(periods), (*made)->rank());
  return made;
}

coll::NewCommunicator create_subgrid(core::Communicator& parent, const Cartesian& grid,
                                     std::span<const int> remain) {
  const std::vector<int> own = grid.coordinates(grid.rank);
  std::vector<int> dims;
  std::vector<bool> periods;
  int64_t slice = 0;  // number of the subgrid: the coordinates in the dropped dimensions
  for (size_t i = 0; i < grid.dims.size(); ++i) {
    if (remain[i] == 0) {
      slice = slice * grid.dims[i] + own[i];
      continue;
    }
    dims.push_back(grid.dims[i]);
    periods.push_back(grid.periods[i]);
  }
  coll::NewCommunicator made = coll::split(parent, slice, 0);
  if (made.ok())
    (*made)->topology = std::make_unique<Cartesian>(std::move(dims), std::move(periods), (*made)->rank());
  return made;
}

}  // namespace weft::topo
