// SPDX-License-Identifier: BSD-3-Clause
// Scatter and Scatterv: binomial tree of packed blocks for small blocks; linear, directly from the root,
// otherwise.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/tree.hpp"

namespace weft::coll::algorithm {
namespace {

Round linear(const Call& call, int round, Stage& stage) {
  if (call.rank != call.root) {
    const p2p::Buffer mine = call.recv.whole();
    if (round > 0 || empty(mine)) return Round::done;
    stage.receive(mine, call.root);
    return Round::more;
  }
  if (round == 0 && !call.in_place) stage.copy(call.recv.whole(), call.send.block(call.rank));
  const Window window(round, 1, call.size, Stage::kTransfers);
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const int dest = call.absolute(i);
    const p2p::Buffer block = call.send.block(dest);
    if (!empty(block)) stage.send(block, dest);
  }
  return Round::more;
}

/// Local copies of the root and the inner nodes between receiving and forwarding.
void copy_blocks(const Call& call, const TreeNode& self, Stage& stage) {
  if (self.node != 0) {
    stage.copy(call.recv.whole(), tree_blocks(call, 0, 1));
    return;
  }
  for (int i = 1; i < call.size; ++i) stage.copy(tree_blocks(call, i, 1), call.send.block(call.absolute(i)));
  if (!call.in_place) stage.copy(call.recv.whole(), call.send.block(call.rank));
}

Round binomial(const Call& call, int round, Stage& stage) {
  const TreeNode self{call.relative(), call.size};
  const bool leaf = self.children() == 0;
  if (round == 0) {
    if (self.node != 0)
      stage.receive(leaf ? call.recv.whole() : tree_blocks(call, 0, self.subtree()),
                    call.absolute(self.parent()));
    return Round::more;
  }
  if (round == 1 && (!leaf || self.node == 0)) copy_blocks(call, self, stage);
  const Window window(round - 1, 0, self.children());
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const int child = self.child(self.children() - 1 - i);
    stage.send(tree_blocks(call, child - self.node, TreeNode::subtree(child, call.size)),
               call.absolute(child));
  }
  return Round::more;
}

}  // namespace

const Algorithm scatter_linear{"linear", linear};
const Algorithm scatter_binomial{"binomial", binomial, tree_scratch};

}  // namespace weft::coll::algorithm
