// SPDX-License-Identifier: BSD-3-Clause
// Gather and Gatherv: binomial tree of packed blocks for small blocks; linear, directly to the root,
// otherwise.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/tree.hpp"

namespace weft::coll::algorithm {
namespace {

Round linear(const Call& call, int round, Stage& stage) {
  if (call.rank != call.root) {
    const p2p::Buffer mine = call.send.whole();
    if (round > 0 || empty(mine)) return Round::done;
    stage.send(mine, call.root);
    return Round::more;
  }
  if (round == 0 && !call.in_place) stage.copy(call.recv.block(call.rank), call.send.whole());
  const Window window(round, 1, call.size, Stage::kTransfers);
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const int source = call.absolute(i);
    const p2p::Buffer block = call.recv.block(source);
    if (!empty(block)) stage.receive(block, source);
  }
  return Round::more;
}

Round binomial(const Call& call, int round, Stage& stage) {
  const TreeNode self{call.relative(), call.size};
  const bool root = self.node == 0, leaf = self.children() == 0;
  const int gather_rounds = Window::rounds(0, self.children());
  if (round == 0 && !leaf && !root) stage.copy(tree_blocks(call, 0, 1), call.send.whole());
  if (round == 0 && root && !call.in_place) stage.copy(call.recv.block(call.rank), call.send.whole());
  if (round < gather_rounds) {
    const Window window(round, 0, self.children());
    for (int i = window.first; i < window.last; ++i) {
      const int child = self.child(i);
      stage.receive(tree_blocks(call, child - self.node, TreeNode::subtree(child, call.size)),
                    call.absolute(child));
    }
    return Round::more;
  }
  if (root) {
    for (int i = 1; i < call.size; ++i)
      stage.copy(call.recv.block(call.absolute(i)), tree_blocks(call, i, 1));
    return Round::done;
  }
  if (round > gather_rounds) return Round::done;
  stage.send(leaf ? call.send.whole() : tree_blocks(call, 0, self.subtree()), call.absolute(self.parent()));
  return Round::more;
}

}  // namespace

const Algorithm gather_linear{"linear", linear};
const Algorithm gather_binomial{"binomial", binomial, tree_scratch};

}  // namespace weft::coll::algorithm
