// SPDX-License-Identifier: BSD-3-Clause
// Allreduce: recursive doubling; reduce-scatter by recursive halving and allgather by doubling (Rabenseifner
// 2004); ring; direct exchange of all pairs. The result is bitwise equal on all ranks.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

size_t one_vector(const Call& call) { return ScratchVectors(call, call.send.count).bytes(1); }

Round recursive_doubling(const Call& call, int round, Stage& stage) {
  if (round == 0 && !call.in_place) stage.copy(call.recv.whole(), call.send.whole());
  return recursive_doubling_phase(call, call.recv.address, ScratchVectors(call, call.send.count).at(0), round,
                                  stage);
}

/// Recursive halving, then doubling, on `power` parts. Terms are received in the result buffer unless it
/// already holds an input.
class Rabenseifner {
 public:
  explicit Rabenseifner(const Call& call)
      : call_(call), fold_(call.rank, call.size), loaded_(call.in_place || fold_.in_pair) {
    tmp_ = ScratchVectors(call, call.send.count).at(0);
  }
  Round round(int round, Stage& stage) const {
    const int step = round - fold_.before(), steps = fold_.steps();
    if (round > 0 && fold_.node >= 0 && step <= steps) consume(step - 1, stage);
    if (step < 0) return fold_in(stage);
    if (step < 2 * steps) {
      if (fold_.node >= 0) step < steps ? halve(step, stage) : gather(step - steps, stage);
      return Round::more;
    }
    if (step > 2 * steps || !fold_.in_pair) return Round::done;
    const p2p::Buffer all = call_.recv.whole();
    fold_.node >= 0 ? stage.send(all, call_.rank - 1) : stage.receive(all, call_.rank + 1);
    return Round::more;
  }

 private:
  [[nodiscard]] int distance(int step) const { return fold_.power >> (step + 1); }
  /// The parts that remain with a node after halving step `step`.
  [[nodiscard]] Part kept(int node, int step) const {
    const int n = distance(step), first = node & ~(n - 1);
    return {call_.send.count, fold_.power, first, first + n};
  }
  [[nodiscard]] bool receives_into_result(int step) const { return !loaded_ && step == 0; }
  Round fold_in(Stage& stage) const {
    if (fold_.in_pair && fold_.node >= 0)
      stage.receive(slice(call_, call_.in_place ? tmp_ : call_.recv.address, 0, call_.send.count),
                    call_.rank - 1);
    if (fold_.in_pair && fold_.node < 0) stage.send(call_.send.whole(), call_.rank + 1);
    return Round::more;
  }
  void consume(int step, Stage& stage) const {
    if (step < 0) {
      const void* other = call_.in_place ? tmp_ : call_.send.address;
      if (fold_.in_pair) stage.fold_left(other, call_.recv.address, call_.send.count);
      return;
    }
    const Part mine = kept(fold_.node, step);
    const void* other = receives_into_result(step) ? call_.send.address : tmp_;
    stage.fold_left(element(call_, other, mine.first), element(call_, call_.recv.address, mine.first),
                    mine.count);
  }
  void halve(int step, Stage& stage) const {
    const int other = fold_.node ^ distance(step), partner = fold_.rank_of(other);
    const bool direct = receives_into_result(step);
    stage.receive(slice(call_, direct ? call_.recv.address : tmp_, kept(fold_.node, step)), partner);
    stage.send(slice(call_, direct ? call_.send.address : call_.recv.address, kept(other, step)), partner);
  }
  /// The halving steps in reverse: in each step the partner's parts complete the larger block.
  void gather(int reverse_step, Stage& stage) const {
    const int step = fold_.steps() - 1 - reverse_step;
    const int other = fold_.node ^ distance(step), partner = fold_.rank_of(other);
    stage.receive(slice(call_, call_.recv.address, kept(other, step)), partner);
    stage.send(slice(call_, call_.recv.address, kept(fold_.node, step)), partner);
  }

  const Call& call_;
  PowerOfTwoFold fold_;
  bool loaded_;  // the result buffer holds an input before the first step
  void* tmp_;
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
