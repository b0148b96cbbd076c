// SPDX-License-Identifier: BSD-3-Clause
// Phases of reduction algorithms.
#include "coll/algorithm/reduction.hpp"

#include <vector>

#include "device/reduce.hpp"

namespace weft::coll::algorithm {
p2p::Buffer slice(const Call& call, const void* vector, int64_t first, int64_t n) {
  p2p::Buffer buffer = host_buffer(element(call, vector, first), n, *call.recv.type);
  if (call.on_gpu) {
    buffer.memory = &call.memory_at(buffer.address);
    return buffer;
  }
  if (vector == call.send.address && call.send.classified) buffer.memory = &call.send.memory;
  if (vector == call.recv.address && call.recv.classified) buffer.memory = &call.recv.memory;
  return buffer;
}

void Accumulator::fold(const Call& call, Stage& stage, bool right, int64_t first, int64_t n) {
  void* const theirs = landing(right);
  const void* const mine = data_;
  advance(right);
  if (!right && data_ != mine) stage.copy(slice(call, data_, first, n), slice(call, mine, first, n));
  stage.fold_left(element(call, right ? mine : theirs, first), element(call, data_, first), n);
}

Round recursive_doubling_phase(const Call& call, Accumulator acc, int round, Stage& stage) {
  const TreeSteps ranks(call.rank, call.size);
  const int64_t n = call.send.count;
  const int step = round - ranks.before();
  const int last = std::min(step, ranks.steps()) - 1;  // steps up to this one are complete
  if (ranks.active)
    for (int i = ranks.first_step(); i <= last; ++i)
      i == step - 1 ? acc.fold(call, stage, ranks.right(i), 0, n) : acc.advance(ranks.right(i));
  if (step < 0) {
    if (ranks.in_pair && ranks.active)
      stage.receive(slice(call, acc.landing(ranks.right(-1)), 0, n), ranks.partner(-1));
    if (ranks.in_pair && !ranks.active) stage.send(slice(call, acc.data(), 0, n), ranks.partner(-1));
    return Round::more;
  }
  if (step < ranks.steps()) {
    if (!ranks.active) return Round::more;
    stage.receive(slice(call, acc.landing(ranks.right(step)), 0, n), ranks.partner(step));
    stage.send(slice(call, acc.data(), 0, n), ranks.partner(step));
    return Round::more;
  }
  if (step > ranks.steps()) return Round::done;
  if (ranks.active) acc.finish(call, stage, 0, n);
  if (!ranks.in_pair) return Round::done;
  const p2p::Buffer result = slice(call, acc.first(), 0, n);
  ranks.active ? stage.send(result, ranks.partner(-1)) : stage.receive(result, ranks.partner(-1));
  return Round::more;
}

Part share(const Call& call, int i) {
  Part part(call.send.count, call.size, i);
  if (call.what == Collective::reduce_scatter_block) {
    part.count = call.recv.count;
    part.first = i * part.count;
  } else if (call.what == Collective::reduce_scatter) {
    part.count = call.recv.counts[i];
    part.first = 0;
    for (int before = 0; before < i; ++before) part.first += call.recv.counts[before];
  }
  return part;
}

void DirectReduceScatter::exchange(int round, Stage& stage) const {
  const Window window(round, 1, call_.size);
  for (int i = window.first; i < window.last && mine_.count > 0; ++i) {
    const int source = call_.wrap(call_.rank - i);
    stage.receive(slice(call_, terms_.at(source), 0, mine_.count), source);
  }
  for (int i = window.first; i < window.last; ++i) {
    const int dest = call_.wrap(call_.rank + i);
    if (const Part part = share(call_, dest); part.count > 0)
      stage.send(slice(call_, call_.send.address, part), dest);
  }
}

namespace {

/// Elements [first, first + n) of the inputs of all ranks, for combine().
struct ReceivedTerms {
  const Call& call;
  const ScratchVectors& received;
  const void* own;
  Stage& stage;
  int64_t first, n;
  [[nodiscard]] const void* term(int rank) const {
    return element(call, rank == call.rank ? own : received.at(rank), first);
  }
  void copy(int rank, void* to) const { stage.copy(slice(call, to, 0, n), slice(call, term(rank), 0, n)); }
  void combine(const void* left, const void* right, void* to) const { stage.combine(left, right, to, n); }
  [[nodiscard]] void* scratch(int rank, int) const { return element(call, received.at(rank), first); }
};

}  // namespace

void DirectReduceScatter::reduce(void* target, Stage& stage) const {
  if (mine_.count == 0 || stage.disabled()) return;
  void* own = element(call_, call_.send.address, mine_.first);
  // A kernel may write to an input if both have the same address and one launch takes all terms.
  const bool same_place =
      call_.on_gpu && target == own && call_.size <= static_cast<int>(device::kernel::Reduce::kTerms);
  if (call_.in_place && !same_place) {  // the target may overlap the own input
    stage.copy(slice(call_, terms_.at(call_.rank), 0, mine_.count), slice(call_, own, 0, mine_.count));
    own = terms_.at(call_.rank);
  }
  if (call_.on_gpu) {
    std::vector<const void*> inputs;
    for (int rank = 0; rank < call_.size; ++rank)
      inputs.push_back(rank == call_.rank ? own : terms_.at(rank));
    return stage.reduce(target, inputs, mine_.count);
  }
  // Blocks that stay in the cache while all inputs are combined; a user-defined operation gets all elements
  // at once.
  constexpr int64_t kBlockBytes = 32 << 10;
  const int64_t size = call_.recv.type->size();
  const bool whole = call_.op->user || size == 0;
  const int64_t block = whole ? mine_.count : std::max<int64_t>(1, kBlockBytes / size);
  if (call_.size == 1 && target == own) return;
  // Kernels combine in rank order, and so does the host for them.
  const bool in_rank_order = rank_order(call_) || call_.gpu.on_device();
  for (int64_t first = 0; first < mine_.count; first += block) {
    const int64_t n = std::min(block, mine_.count - first);
    ReceivedTerms terms{call_, terms_, own, stage, first, n};
    combine(terms, call_.size, in_rank_order, element(call_, target, first));
  }
}

}  // namespace weft::coll::algorithm
