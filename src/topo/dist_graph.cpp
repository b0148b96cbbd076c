// SPDX-License-Identifier: BSD-3-Clause
// Distributed graphs: a process sends every edge it specifies to both ends of the edge.
#include "topo/dist_graph.hpp"

#include "coll/schedule/collective.hpp"

namespace weft::topo {
namespace {

using core::Communicator;

coll::Call call_of(coll::Collective what, Communicator& comm, const datatype::Datatype* type) {
  coll::Call call;
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  call.send.blocks = call.recv.blocks = call.size;
  call.send.type = call.recv.type = type;
  call.send.classified = call.recv.classified = true;  // host memory
  return call;
}

/// Sends lists[i] to rank i; returns the edges received from all ranks, in rank order.
Result<std::vector<Edge>> exchange_edges(Communicator& comm, const std::vector<std::vector<Edge>>& lists) {
  const datatype::Datatype* const byte = coll::packed(nullptr, 0).type;
  const size_t ranks = lists.size();
  std::vector<int64_t> out(ranks), in(ranks), from(ranks), to(ranks);
  std::vector<Edge> outgoing;
  for (size_t i = 0; i < ranks; ++i) {
    from[i] = static_cast<int64_t>(outgoing.size() * sizeof(Edge));
    out[i] = static_cast<int64_t>(lists[i].size() * sizeof(Edge));
    outgoing.insert(outgoing.end(), lists[i].begin(), lists[i].end());
  }
  coll::Call sizes = call_of(coll::Collective::alltoall, comm, byte);
  sizes.send.address = out.data();
  sizes.recv.address = in.data();
  sizes.send.count = sizes.recv.count = sizes.bytes = sizeof(int64_t);
  WEFT_TRY(coll::run(sizes));
  int64_t total = 0;
  for (size_t i = 0; i < ranks; total += in[i++]) to[i] = total;
  std::vector<Edge> incoming(static_cast<size_t>(total) / sizeof(Edge));
  coll::Call edges = call_of(coll::Collective::alltoallv, comm, byte);
  edges.send.address = outgoing.data();
  edges.send.counts = {out.data(), true};
  edges.send.displacements = {from.data(), true};
  edges.recv.address = incoming.data();
  edges.recv.counts = {in.data(), true};
  edges.recv.displacements = {to.data(), true};
  WEFT_TRY(coll::run(edges));
  return incoming;
}

}  // namespace

coll::NewCommunicator create_adjacent(Communicator& parent, DistGraph own) {
  coll::NewCommunicator made = coll::create(parent, *parent.group);
  if (made.ok()) (*made)->topology = std::make_unique<DistGraph>(std::move(own));
  return made;
}

coll::NewCommunicator create_dist_graph(Communicator& parent, const std::vector<Edge>& edges, bool weighted) {
  std::vector<std::vector<Edge>> lists(static_cast<size_t>(parent.size()));
  for (const Edge& edge : edges) {
    lists[static_cast<size_t>(edge.source)].push_back(edge);
    if (edge.destination != edge.source) lists[static_cast<size_t>(edge.destination)].push_back(edge);
  }
  auto received = exchange_edges(parent, lists);
  if (!received) return std::move(received).error();
  DistGraph own;
  own.weighted = weighted;
  for (const Edge& edge : *received) {
    if (edge.source == parent.rank()) {
      own.destinations.push_back(edge.destination);
      own.destination_weights.push_back(edge.weight);
    }
    if (edge.destination == parent.rank()) {
      own.sources.push_back(edge.source);
      own.source_weights.push_back(edge.weight);
    }
  }
  return create_adjacent(parent, std::move(own));
}

}  // namespace weft::topo
