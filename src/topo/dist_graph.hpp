// SPDX-License-Identifier: BSD-3-Clause
// Distributed graph topologies (MPI 5.0 sections 8.5.4 and 8.5.5): a process knows its own edges only.
// Threading: under the instance lock.
#pragma once
#include <vector>

#include "coll/construct.hpp"
#include "core/communicator.hpp"

namespace weft::topo {

/// The neighbors are Topology::sources and destinations; an edge that was given twice is there twice.
class DistGraph final : public core::Topology {
 public:
  DistGraph() : Topology(Kind::distributed_graph) {}
  [[nodiscard]] std::unique_ptr<Topology> clone() const override {
    return std::make_unique<DistGraph>(*this);
  }

  bool weighted = false;
  std::vector<int> source_weights, destination_weights;  ///< 1 when not weighted
};

struct Edge {
  int source, destination, weight;
};

/// MPI_Dist_graph_create_adjacent: each process gives its own edges. The ranks keep their order.
[[nodiscard]] coll::Made create_adjacent(core::Communicator& parent, DistGraph own);
/// MPI_Dist_graph_create: a process gives any edges. Each process gets its own in the order of the ranks that
/// gave them, as they gave them.
[[nodiscard]] coll::Made create_dist_graph(core::Communicator& parent, const std::vector<Edge>& edges,
                                           bool weighted);

}  // namespace weft::topo
