// SPDX-License-Identifier: BSD-3-Clause
// Neighborhood collectives (MPI 5.0 section 8.7): one message along each edge of the topology, all in one
// round, since the edges of a graph have no common order for windows.
#include "coll/algorithm/neighbor.hpp"

#include "coll/algorithm/algorithms.hpp"

namespace weft::coll::algorithm {
namespace {

Round direct(const Call& call, int round, Stage& stage) {
  if (round > 0) return Round::done;
  const core::Topology& topology = *call.comm->topology;
  const bool same_to_all =
      call.what == Collective::neighbor_allgather || call.what == Collective::neighbor_allgatherv;
  for (int i = 0; i < call.recv.blocks; ++i) {
    const int at = receive_index(topology, i), source = topology.sources[static_cast<size_t>(at)];
    if (source == p2p::kProcNull) continue;
    if (const p2p::Buffer block = call.recv.block(at); !empty(block)) stage.receive(block, source);
  }
  for (int i = 0; i < call.send.blocks; ++i) {
    const int dest = topology.destinations[static_cast<size_t>(i)];
    if (dest == p2p::kProcNull) continue;
    const p2p::Buffer block = same_to_all ? call.send.whole() : call.send.block(i);
    if (!empty(block)) stage.send(block, dest);
  }
  return Round::more;
}

}  // namespace

const Algorithm neighbor_direct{"direct", direct};

}  // namespace weft::coll::algorithm
