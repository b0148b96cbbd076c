// SPDX-License-Identifier: BSD-3-Clause
// Reduce: binomial tree; direct reduce-scatter and gather for large vectors.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

size_t binomial_scratch(const Call& call) { return ScratchVectors(call, call.send.count).bytes(2); }

Accumulator accumulator(const Call& call) {
  const ScratchVectors vectors(call, call.send.count);
  return {call.send.address, call.rank == call.root ? call.recv.address : vectors.at(1), vectors.at(0)};
}

/// The binomial tree of the nodes relative to the root's node. Differences of nodes are bitwise, so every
/// root gets the terms in the same order.
Round binomial(const Call& call, int round, Stage& stage) {
  const TreeSteps tree(call.rank, call.size, call.root);
  const auto relative = static_cast<unsigned>(tree.node ^ tree.node_of(call.root));
  const int last = relative == 0 ? tree.steps() : std::countr_zero(relative);  // the step in which it sends
  const int step = round - tree.before();
  const int64_t n = call.send.count;
  Accumulator acc = accumulator(call);
  if (!tree.active) {
    if (round > 0) return Round::done;
    stage.send(slice(call, acc.data(), 0, n), tree.partner(-1));
    return Round::more;
  }
  if (step > last) return Round::done;
  for (int i = tree.first_step(); i < step - 1; ++i) acc.advance(tree.right(i));
  if (step - 1 >= tree.first_step()) acc.fold(call, stage, tree.right(step - 1), 0, n);
  if (step < last) {
    if (step >= tree.first_step())
      stage.receive(slice(call, acc.landing(tree.right(step)), 0, n), tree.partner(step));
    return Round::more;
  }
  if (call.rank == call.root) {
    acc.finish(call, stage, 0, n);
    return Round::done;
  }
  stage.send(slice(call, acc.data(), 0, n), tree.partner(step));
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
