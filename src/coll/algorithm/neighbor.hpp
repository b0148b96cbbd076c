// SPDX-License-Identifier: BSD-3-Clause
// Blocks that travel along the edges of a topology, in the order of their messages.
#pragma once
#include "coll/schedule/call.hpp"
#include "core/communicator.hpp"

namespace weft::coll::algorithm {

/// Index of the source whose message matches the i-th receive in order. With several edges between two
/// processes, the k-th send matches the k-th receive. On a Cartesian grid a message sent down arrives from
/// above, so the two edges of a dimension are swapped, which matters if both lead to one process.
[[nodiscard]] inline int receive_index(const core::Topology& topology, int i) {
  return topology.kind == core::Topology::Kind::cartesian ? i ^ 1 : i;
}

/// Calls f(source, block) for each block that a neighborhood collective receives.
template <class F>
void for_each_source(const Call& call, F&& f) {
  const core::Topology& topology = *call.comm->topology;
  for (int i = 0; i < call.recv.blocks; ++i) {
    const int at = receive_index(topology, i), source = topology.sources[static_cast<size_t>(at)];
    if (source != p2p::kProcNull) f(source, call.recv.block(at));
  }
}

/// Calls f(dest, block) for each block that a neighborhood collective sends.
template <class F>
void for_each_destination(const Call& call, F&& f) {
  const core::Topology& topology = *call.comm->topology;
  const bool same_to_all =
      call.what == Collective::neighbor_allgather || call.what == Collective::neighbor_allgatherv;
  for (int i = 0; i < call.send.blocks; ++i)
    if (const int dest = topology.destinations[static_cast<size_t>(i)]; dest != p2p::kProcNull)
      f(dest, same_to_all ? call.send.whole() : call.send.block(i));
}

}  // namespace weft::coll::algorithm
