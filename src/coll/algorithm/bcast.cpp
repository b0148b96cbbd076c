// SPDX-License-Identifier: BSD-3-Clause
// Bcast: binomial tree; pipelined chain; scatter and ring allgather (van de Geijn). The latter two segment
// the packed data, which are equal on all ranks even if their types differ.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/tree.hpp"

namespace weft::coll::algorithm {
namespace {

/// Round 0 receives from the parent; each later round sends to a window of children, deepest subtree first.
Round binomial(const Call& call, int round, Stage& stage) {
  const TreeNode self{call.relative(), call.size};
  if (round == 0) {
    if (self.node != 0) stage.receive(call.recv.whole(), call.absolute(self.parent()));
    return Round::more;
  }
  const Window window(round - 1, 0, self.children());
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i)
    stage.send(call.recv.whole(), call.absolute(self.child(self.children() - 1 - i)));
  return Round::more;
}

// The packed data: the application's buffer if its type is contiguous, else a copy in scratch.
size_t packed_scratch(const Call& call) { return call.recv.type->contiguous() ? 0 : call.bytes; }

p2p::Buffer packed_part(const Call& call, int64_t first, int64_t n) {
  p2p::Buffer part = packed(call.scratch + first, static_cast<uint64_t>(n));
  if (!call.recv.type->contiguous()) return part;
  part.address = advance(call.recv.address, first);
  part.memory = call.recv.classified ? &call.recv.memory : nullptr;
  return part;
}

void pack_at_root(const Call& call, Stage& stage) {
  if (!call.recv.type->contiguous() && call.rank == call.root)
    stage.copy(packed(call.scratch, call.bytes), call.recv.whole());
}

void unpack_elsewhere(const Call& call, Stage& stage) {
  if (!call.recv.type->contiguous() && call.rank != call.root)
    stage.copy(call.recv.whole(), packed(call.scratch, call.bytes));
}

int chain_segments(const Call& call) {
  constexpr uint64_t kMinSegmentBytes = 128 << 10, kMaxSegments = 32;
  const uint64_t segment = std::max(kMinSegmentBytes, (call.bytes + kMaxSegments - 1) / kMaxSegments);
  return static_cast<int>(std::max<uint64_t>(1, (call.bytes + segment - 1) / segment));
}

/// Round k receives segment k and forwards segment k - 1.
Round chain(const Call& call, int round, Stage& stage) {
  const int segments = chain_segments(call), node = call.relative();
  const auto segment = [&](int i) {
    const Part part(static_cast<int64_t>(call.bytes), segments, i);
    return packed_part(call, part.first, part.count);
  };
  if (round == 0) pack_at_root(call, stage);
  if (round > segments) {
    unpack_elsewhere(call, stage);
    return Round::done;
  }
  if (node > 0 && round < segments) stage.receive(segment(round), call.absolute(node - 1));
  if (node + 1 < call.size && round > 0) stage.send(segment(round - 1), call.absolute(node + 1));
  return Round::more;
}

/// Binomial scatter of one part for each rank, then a ring allgather.
Round scatter_allgather(const Call& call, int round, Stage& stage) {
  const TreeNode self{call.relative(), call.size};
  const auto parts = [&](int node, int n) {
    const Part part(static_cast<int64_t>(call.bytes), call.size, node, node + n);
    return packed_part(call, part.first, part.count);
  };
  if (round == 0) {
    pack_at_root(call, stage);
    if (self.node != 0) stage.receive(parts(self.node, self.subtree()), call.absolute(self.parent()));
    return Round::more;
  }
  if (const Window window(round - 1, 0, self.children()); !window.empty()) {
    for (int i = window.first; i < window.last; ++i) {
      const int child = self.child(self.children() - 1 - i);
      stage.send(parts(child, TreeNode::subtree(child, call.size)), call.absolute(child));
    }
    return Round::more;
  }
  const int step = round - 1 - Window::rounds(0, self.children());
  if (step >= call.size - 1) {
    unpack_elsewhere(call, stage);
    return Round::done;
  }
  stage.receive(parts(call.wrap(self.node - step - 1), 1), call.absolute(call.wrap(self.node - 1)));
  stage.send(parts(call.wrap(self.node - step), 1), call.absolute(call.wrap(self.node + 1)));
  return Round::more;
}

}  // namespace

const Algorithm bcast_binomial{"binomial", binomial};
const Algorithm bcast_chain{"chain", chain, packed_scratch};
const Algorithm bcast_scatter_allgather{"scatter_allgather", scatter_allgather, packed_scratch};

}  // namespace weft::coll::algorithm
