// SPDX-License-Identifier: BSD-3-Clause
// Distributed graph topologies (MPI 5.0 sections 8.5.4 and 8.5.5): a process stores only its own edges.
// Threading: under the instance lock.
#pragma once
#include <vector>

#include "coll/construct/communicators.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

/// The neighbors are Topology::sources and destinations; an edge specified twice is listed twice.
class DistGraph final : public core::Topology {
 public:
  DistGraph() : Topology(Kind::distributed_graph) {}
  [[nodiscard]] std::unique_ptr<Topology> clone() const override {
    return std::make_unique<DistGraph>(*this);
  }

  bool weighted = false;
  std::vector<int> source_weights, destination_weights;  ///< 1 if not weighted
};

struct Edge {
  int source, destination, weight;
};

/// MPI_Dist_graph_create_adjacent: each process specifies its own edges. Ranks are not reordered.
[[nodiscard]] coll::NewCommunicator create_adjacent(core::Communicator& parent, DistGraph own);
/// MPI_Dist_graph_create: a process may specify any edges. The own edges of a process are ordered by the
/// specifying rank, then by that rank's order.
[[nodiscard]] coll::NewCommunicator create_dist_graph(core::Communicator& parent,
                                                      const std::vector<Edge>& edges, bool weighted);

}  // namespace weft::topo
