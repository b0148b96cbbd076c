// SPDX-License-Identifier: BSD-3-Clause
// Graph topologies (MPI 5.0 sections 8.5.3 and 8.5.5): every process stores all edges.
// Threading: under the instance lock.
#pragma once
#include <span>
#include <vector>

#include "base/result.hpp"
#include "coll/construct/communicators.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

class Graph final : public core::Topology {
 public:
  /// Node i has the edges [index[i - 1], index[i]). `rank`: rank of this process.
  Graph(std::vector<int> index, std::vector<int> edges, int rank);
  [[nodiscard]] std::unique_ptr<Topology> clone() const override;
  [[nodiscard]] std::span<const int> neighbors(int rank) const;

  const std::vector<int> index, edges;
};

/// Errc::arg if the edges are not a valid graph.
[[nodiscard]] Status check_graph(std::span<const int> index, const int* edges);
/// MPI_Graph_create; nullptr if this process is not in the graph. Ranks are not reordered.
[[nodiscard]] coll::NewCommunicator create_graph(core::Communicator& parent, std::span<const int> index,
                                                 const int* edges);

}  // namespace weft::topo
