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

Round recursive_doubling_phase(const Call& call, void* acc, void* tmp, int round, Stage& stage) {
  const PowerOfTwoFold fold(call.rank, call.size);
  const bool active = fold.node >= 0;
  const int64_t n = call.send.count;
  const int step = round - fold.before();
  const p2p::Buffer mine = slice(call, acc, 0, n), theirs = slice(call, tmp, 0, n);
  if (round > 0 && active && step <= fold.steps()) {  // combine the term of the previous round
    if (step > 0)
      ((fold.node >> (step - 1)) & 1) != 0 ? stage.fold_left(tmp, acc, n) : stage.fold_right(tmp, acc, n);
    else if (fold.in_pair)
      stage.fold_left(tmp, acc, n);
  }
  if (step < 0) {
    if (fold.in_pair && active) stage.receive(theirs, call.rank - 1);
    if (fold.in_pair && !active) stage.send(mine, call.rank + 1);
    return Round::more;
  }
  if (step < fold.steps()) {
    if (!active) return Round::more;
    const int partner = fold.rank_of(fold.node ^ (1 << step));
    stage.receive(theirs, partner);
    stage.send(mine, partner);
    return Round::more;
  }
  if (step > fold.steps() || !fold.in_pair) return Round::done;
  active ? stage.send(mine, call.rank - 1) : stage.receive(mine, call.rank + 1);
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

void DirectReduceScatter::reduce(void* target, Stage& stage) const {
  if (mine_.count == 0) return;
  void* own = element(call_, call_.send.address, mine_.first);
  const auto input = [&](int rank) { return rank == call_.rank ? own : terms_.at(rank); };
  // A kernel may write to an input if both have the same address and one launch takes all terms.
  const bool same_place =
      call_.on_gpu && target == own && call_.size <= static_cast<int>(device::kernel::Reduce::kTerms);
  if (call_.in_place && !same_place) {  // the target may overlap the own input
    stage.copy(slice(call_, terms_.at(call_.rank), 0, mine_.count), slice(call_, own, 0, mine_.count));
    own = terms_.at(call_.rank);
  }
  if (call_.on_gpu) {
    std::vector<const void*> inputs;
    for (int rank = 0; rank < call_.size; ++rank) inputs.push_back(input(rank));
    return stage.reduce(target, inputs, mine_.count);
  }
  // Blocks that stay in the cache while all inputs are combined; a user-defined operation gets all elements
  // at once.
  constexpr int64_t kBlockBytes = 32 << 10;
  const int64_t size = std::max<int64_t>(1, call_.recv.type->size());
  const int64_t block = call_.op->user ? mine_.count : std::max<int64_t>(1, kBlockBytes / size);
  for (int64_t first = 0; first < mine_.count; first += block) {
    const int64_t n = std::min(block, mine_.count - first);
    stage.copy(slice(call_, target, first, n), slice(call_, input(call_.size - 1), first, n));
    for (int rank = call_.size - 2; rank >= 0; --rank)
      stage.fold_left(element(call_, input(rank), first), element(call_, target, first), n);
  }
}

}  // namespace weft::coll::algorithm
