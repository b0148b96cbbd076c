// SPDX-License-Identifier: BSD-3-Clause
// Graph topologies (MPI 5.0 sections 8.5.3 and 8.5.5): every process knows all edges.
// Threading: under the instance lock.
#pragma once
#include <span>
#include <vector>

#include "base/result.hpp"
#include "coll/construct.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

class Graph final : public core::Topology {
 public:
  /// The edges of node i are those from `index[i - 1]` up to `index[i]`. `rank`: this process's.
  Graph(std::vector<int> index, std::vector<int> edges, int rank);
  [[nodiscard]] std::unique_ptr<Topology> clone() const override;
  [[nodiscard]] std::span<const int> neighbors(int rank) const;

  const std::vector<int> index, edges;
};

/// Errc::arg when the edges do not make sense.
[[nodiscard]] Status check_graph(std::span<const int> index, const int* edges);
/// MPI_Graph_create; nullptr: this process is not in the graph. The ranks keep their order.
[[nodiscard]] coll::Made create_graph(core::Communicator& parent, std::span<const int> index,
                                      const int* edges);

}  // namespace weft::topo
