// SPDX-License-Identifier: BSD-3-Clause
#include "topo/graph.hpp"

#include <string>

#include "topo/create.hpp"

namespace weft::topo {

Graph::Graph(std::vector<int> ends, std::vector<int> all, int rank)
    : Topology(Kind::graph), index(std::move(ends)), edges(std::move(all)) {
  const auto own = neighbors(rank);
  sources.assign(own.begin(), own.end());
  destinations = sources;
}

std::unique_ptr<core::Topology> Graph::clone() const { return std::make_unique<Graph>(*this); }

std::span<const int> Graph::neighbors(int rank) const {
  const auto node = static_cast<size_t>(rank);
  const int first = node == 0 ? 0 : index[node - 1];
  return std::span<const int>(edges).subspan(static_cast<size_t>(first),
                                             static_cast<size_t>(index[node] - first));
}

Status check_graph(std::span<const int> index, const int* edges) {
  int last = 0;
  for (size_t i = 0; i < index.size(); last = index[i++])
    if (index[i] < last)
      return Error(Errc::arg, "index[" + std::to_string(i) + "] = " + std::to_string(index[i]) +
                                  " is less than the previous entry (" + std::to_string(last) +
                                  "): index holds cumulative edge counts");
  if (last > 0 && edges == nullptr) return Error(Errc::arg, "edges is a null pointer: pass an array");
  const auto nodes = static_cast<int>(index.size());
  for (int i = 0; i < last; ++i)
    if (edges[i] < 0 || edges[i] >= nodes)
      return Error(Errc::arg, "edges[" + std::to_string(i) + "] = " + std::to_string(edges[i]) +
                                  " is not a node: use 0 to " + std::to_string(nodes - 1));
  return {};
}

coll::NewCommunicator create_graph(core::Communicator& parent, std::span<const int> index, const int* edges) {
  WEFT_TRY(check_graph(index, edges));
  coll::NewCommunicator made = first_ranks(parent, static_cast<int>(index.size()), "the graph");
  if (made.ok() && *made != nullptr) {
    std::vector<int> all(edges, edges + index.back());
    (*made)->topology = std::make_unique<Graph>(std::vector<int>(index.begin(), index.end()), std::move(all),
                                                (*made)->rank());
  }
  return made;
}

}  // namespace weft::topo
