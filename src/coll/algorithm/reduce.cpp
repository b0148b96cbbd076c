// SPDX-License-Identifier: BSD-3-Clause
// Reduce: binomial tree, in rank order for operations that need it; reduce-scatter and gather for large
// vectors.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

/// The binomial tree. For noncommutative operations rank 0 is its root and forwards the result.
struct Tree {
  const Call& call;
  int top;  // the rank at the tree's root
  TreeNode self;
  void* acc;  // accumulator
  void* tmp;
  explicit Tree(const Call& of)
      : call(of), top(of.commutative() ? of.root : 0), self{of.wrap(of.rank - top), of.size} {
    const ScratchVectors vectors(call, call.send.count);
    tmp = vectors.at(0);
    acc = result_here() ? call.recv.address : vectors.at(1);
  }
  [[nodiscard]] bool result_here() const { return self.node == 0 && call.rank == call.root; }
  [[nodiscard]] bool preloaded() const { return acc == call.send.address; }
  [[nodiscard]] int rank_of(int node) const { return (node + top) % call.size; }
};

size_t binomial_scratch(const Call& call) { return ScratchVectors(call, call.send.count).bytes(2); }

Round binomial(const Call& call, int round, Stage& stage) {
  const Tree tree(call);
  const int64_t n = call.send.count;
  const int children = tree.self.children();
  const auto lands_in_acc = [&](int child) { return child == 0 && !tree.preloaded(); };
  if (round > 0 && round <= children) {  // combine a child's term: its ranks are above all earlier ones
    if (lands_in_acc(round - 1))
      stage.fold_left(call.send.address, tree.acc, n);
    else
      stage.fold(tree.tmp, tree.acc, n);
  }
  if (round < children) {
    stage.receive(slice(call, lands_in_acc(round) ? tree.acc : tree.tmp, 0, n),
                  tree.rank_of(tree.self.child(round)));
    return Round::more;
  }
  if (round > children) return Round::done;
  const void* combined = children == 0 ? call.send.address : tree.acc;
  if (tree.self.node != 0) {
    stage.send(slice(call, combined, 0, n), tree.rank_of(tree.self.parent()));
    if (call.rank == call.root) stage.receive(call.recv.part(0, n), tree.top);
    return Round::more;
  }
  if (tree.result_here())
    stage.copy(call.recv.part(0, n), slice(call, combined, 0, n));
  else
    stage.send(slice(call, combined, 0, n), call.root);
  return Round::more;
}

// Scratch of the direct algorithm: the terms received, then the share of this rank of the result.
size_t direct_scratch(const Call& call) {
  return DirectReduceScatter::scratch(call) + ScratchVectors(call, share(call, call.rank).count).bytes(1);
}

Round direct(const Call& call, int round, Stage& stage) {
  const DirectReduceScatter phase(call);
  const int exchange_rounds = DirectReduceScatter::rounds(call);
  if (round < exchange_rounds) {
    phase.exchange(round, stage);
    return Round::more;
  }
  const ScratchVectors vectors(call, phase.mine().count);
  const bool root = call.rank == call.root;
  void* target = root ? element(call, call.recv.address, phase.mine().first) : vectors.at(call.size);
  if (round == exchange_rounds) phase.reduce(target, stage);
  if (!root) {
    if (round > exchange_rounds || phase.mine().count == 0) return Round::done;
    stage.send(slice(call, target, 0, phase.mine().count), call.root);
    return Round::more;
  }
  const Window window(round - exchange_rounds, 1, call.size, Stage::kTransfers);
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const Part part = share(call, call.absolute(i));
    if (part.count > 0) stage.receive(slice(call, call.recv.address, part), call.absolute(i));
  }
  return Round::more;
}

}  // namespace

const Algorithm reduce_binomial{"binomial", binomial, binomial_scratch};
const Algorithm reduce_direct{"direct", direct, direct_scratch};

}  // namespace weft::coll::algorithm
