// SPDX-License-Identifier: BSD-3-Clause
// Neighborhood collectives (MPI 5.0 section 8.7): one message along each edge of the topology, all in one
// round, since the edges of a graph have no common order for windows.
#include "coll/algorithm/neighbor.hpp"

#include "coll/algorithm/algorithms.hpp"

namespace weft::coll::algorithm {
namespace {

Round direct(const Call& call, int round, Stage& stage) {
  if (round > 0) return Round::done;
  for_each_source(call, [&](int source, const p2p::Buffer& block) {
    if (!empty(block)) stage.receive(block, source);
  });
  for_each_destination(call, [&](int dest, const p2p::Buffer& block) {
    if (!empty(block)) stage.send(block, dest);
  });
  return Round::more;
}

}  // namespace

const Algorithm neighbor_direct{"direct", direct};

}  // namespace weft::coll::algorithm
