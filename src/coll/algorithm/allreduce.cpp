// SPDX-License-Identifier: BSD-3-Clause
// Allreduce: recursive doubling; reduce-scatter by recursive halving and allgather by doubling (Rabenseifner
// 2004); ring, which has an order of terms of its own; direct exchange of all pairs. The result is bitwise
// equal on all ranks.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

size_t one_vector(const Call& call) { return ScratchVectors(call, call.send.count).bytes(1); }

Accumulator accumulator(const Call& call) {
  return {call.send.address, call.recv.address, ScratchVectors(call, call.send.count).at(0)};
}

Round recursive_doubling(const Call& call, int round, Stage& stage) {
  return recursive_doubling_phase(call, accumulator(call), round, stage);
}

/// Recursive halving with partners of increasing distance, which combines in the order of the tree; then
/// doubling in the reverse order of steps. The vector has as many parts as the tree has nodes.
class Rabenseifner {
 public:
  explicit Rabenseifner(const Call& call)
      : call_(call), tree_(call.rank, call.size), acc_(accumulator(call)) {}
  Round round(int round, Stage& stage) {
    const int step = round - tree_.before(), steps = tree_.steps();
    if (round > 0 && tree_.active) consume(step - 1, stage);
    if (step < 0) return combine_pair(stage);
    if (step < 2 * steps) {
      if (tree_.active) step < steps ? halve(step, stage) : gather(2 * steps - 1 - step, stage);
      return Round::more;
    }
    if (step > 2 * steps || !tree_.in_pair) return Round::done;
    const p2p::Buffer all = call_.recv.whole();
    tree_.active ? stage.send(all, tree_.partner(-1)) : stage.receive(all, tree_.partner(-1));
    return Round::more;
  }

 private:
  /// The parts that remain with a node after halving step `step`: each step keeps the half of its bit.
  [[nodiscard]] Part kept(int node, int step) const {
    int first = 0, n = tree_.power;
    for (int i = 0; i <= step; ++i) {
      n /= 2;
      first += ((node >> i) & 1) * n;
    }
    return {call_.send.count, tree_.power, first, first + n};
  }
  Round combine_pair(Stage& stage) {
    if (tree_.in_pair && tree_.active)
      stage.receive(slice(call_, acc_.landing(tree_.right(-1)), 0, call_.send.count), tree_.partner(-1));
    if (tree_.in_pair && !tree_.active) stage.send(call_.send.whole(), tree_.partner(-1));
    return Round::more;
  }
  /// Combines the term received in step `last`, unless the vector is reduced already.
  void consume(int last, Stage& stage) {
    for (int i = tree_.first_step(); i < std::min(last, tree_.steps()); ++i) acc_.advance(tree_.right(i));
    if (last < tree_.first_step() || last >= tree_.steps()) return;
    const Part mine = kept(tree_.node, last);
    acc_.fold(call_, stage, tree_.right(last), mine.first, mine.count);
    if (last == tree_.steps() - 1) acc_.finish(call_, stage, mine.first, mine.count);
  }
  void halve(int step, Stage& stage) const {
    const int partner = tree_.partner(step);
    stage.receive(slice(call_, acc_.landing(tree_.right(step)), kept(tree_.node, step)), partner);
    stage.send(slice(call_, acc_.data(), kept(tree_.node ^ (1 << step), step)), partner);
  }
  /// In each step the partner's parts complete the larger block.
  void gather(int step, Stage& stage) const {
    const int partner = tree_.partner(step);
    stage.receive(slice(call_, call_.recv.address, kept(tree_.node ^ (1 << step), step)), partner);
    stage.send(slice(call_, call_.recv.address, kept(tree_.node, step)), partner);
  }

  const Call& call_;
  TreeSteps tree_;
  Accumulator acc_;
};

Round rabenseifner(const Call& call, int round, Stage& stage) {
  if (call.size == 1) {
    stage.copy(call.recv.whole(), call.send.whole());
    return Round::done;
  }
  return Rabenseifner(call).round(round, stage);
}

/// Ring reduce-scatter in the first P - 1 rounds, ring allgather in the last P - 1 rounds. Terms are received
/// in the result buffer unless it holds this rank's input.
Round ring(const Call& call, int round, Stage& stage) {
  const int last = call.size - 1, next = call.wrap(call.rank + 1), previous = call.wrap(call.rank - 1);
  void* result = call.recv.address;
  const auto part = [&](int i) { return Part(call.send.count, call.size, call.wrap(i)); };
  const auto slot = [&](const Part& p) {
    return call.in_place ? ScratchVectors(call, Part(call.send.count, call.size, 0).count).at(0)
                         : element(call, result, p.first);
  };
  if (call.size == 1) {
    stage.copy(call.recv.whole(), call.send.whole());
    return Round::done;
  }
  if (round > 0 && round <= last) {
    const Part p = part(call.rank - round);
    const void* other = call.in_place ? slot(p) : element(call, call.send.address, p.first);
    stage.fold_left(other, element(call, result, p.first), p.count);
  }
  if (round >= 2 * last) return Round::done;
  const Part out = part(call.rank - round + (round < last ? 0 : last + 1));
  const Part in = part(call.rank - round - 1 + (round < last ? 0 : last + 1));
  stage.receive(round < last ? slice(call, slot(in), 0, in.count) : slice(call, result, in), previous);
  stage.send(slice(call, round == 0 ? call.send.address : result, out), next);
  return Round::more;
}

size_t ring_scratch(const Call& call) {
  return call.in_place ? ScratchVectors(call, Part(call.send.count, call.size, 0).count).bytes(1) : 0;
}

Round direct(const Call& call, int round, Stage& stage) {
  const DirectReduceScatter phase(call);
  const int exchange_rounds = DirectReduceScatter::rounds(call);
  if (round < exchange_rounds) {
    phase.exchange(round, stage);
    return Round::more;
  }
  if (round == exchange_rounds) phase.reduce(element(call, call.recv.address, phase.mine().first), stage);
  const Window window(round - exchange_rounds, 1, call.size);
  if (window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const int source = call.wrap(call.rank - i);
    if (const Part part = share(call, source); part.count > 0)
      stage.receive(slice(call, call.recv.address, part), source);
  }
  for (int i = window.first; i < window.last && phase.mine().count > 0; ++i)
    stage.send(slice(call, call.recv.address, phase.mine()), call.wrap(call.rank + i));
  return Round::more;
}

}  // namespace

const Algorithm allreduce_recursive_doubling{"recursive_doubling", recursive_doubling, one_vector};
const Algorithm allreduce_rabenseifner{"rabenseifner", rabenseifner, one_vector};
const Algorithm allreduce_ring{"ring", ring, ring_scratch};
const Algorithm allreduce_direct{"direct", direct, DirectReduceScatter::scratch};

}  // namespace weft::coll::algorithm
