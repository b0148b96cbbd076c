// SPDX-License-Identifier: BSD-3-Clause
// Order of the messages along the edges of a topology.
#pragma once
#include "core/communicator.hpp"

namespace weft::coll::algorithm {

/// Index of the source whose message matches the i-th receive in order. With several edges between two
/// processes, the k-th send matches the k-th receive. On a Cartesian grid a message sent down arrives from
/// above, so the two edges of a dimension are swapped, which matters if both lead to one process.
[[nodiscard]] inline int receive_index(const core::Topology& topology, int i) {
  return topology.kind == core::Topology::Kind::cartesian ? i ^ 1 : i;
}

}  // namespace weft::coll::algorithm
