// SPDX-License-Identifier: BSD-3-Clause
// Collectives on intercommunicators (MPI 5.0 section 6.2.3). Collectives on whole vectors run in phases over
// the leader, rank 0 of each group: in the local group (any algorithm for intracommunicators), between the
// leaders, in the local group. Blocks are sent directly between their source and destination.
#include <algorithm>

#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"
#include "coll/hierarchy/schedules.hpp"
#include "coll/select/table.hpp"

namespace weft::coll::hierarchy {

using namespace algorithm;

namespace {

/// The same call in the local group, with the leader as root.
Call inner_call(const Call& call, Collective what) {
  Call inner = call;
  inner.what = what;
  inner.comm = call.comm->local.get();
  inner.root = inner.phase = 0;
  return inner;
}

/// A round of a phase in the local group that another phase follows.
Round local_group_phase(const Call& inner, const Call& call, int round, Stage& stage) {
  const Round result = select::local_group_round(inner, call, round, stage);
  return result == Round::done ? Round::next_phase : result;
}

size_t scratch_of(const Call& inner) {
  const Algorithm& chosen = select::by_table(inner);
  return chosen.scratch != nullptr ? chosen.scratch(inner) : 0;
}

bool leader(const Call& call) { return call.rank == 0; }

Round barrier(const Call& call, int round, Stage& stage) {
  const Call inner = inner_call(call, Collective::barrier);
  if (call.phase == 0) return local_group_phase(inner, call, round, stage);
  if (call.phase == 2) return select::local_group_round(inner, call, round, stage);
  if (round > 0 || !leader(call)) return Round::next_phase;
  stage.receive(packed(nullptr, 0), 0);
  stage.send(packed(nullptr, 0), 0);
  return Round::more;
}

Round bcast(const Call& call, int round, Stage& stage) {
  if (call.root < 0) {  // the root's group
    if (call.root != kRoot || round > 0) return Round::done;
    stage.send(call.recv.whole(), 0);
    return Round::more;
  }
  if (call.phase == 1)
    return select::local_group_round(inner_call(call, Collective::bcast), call, round, stage);
  if (round > 0 || !leader(call)) return Round::next_phase;
  stage.receive(call.recv.whole(), call.root);
  return Round::more;
}

size_t bcast_scratch(const Call& call) {
  return call.root < 0 ? 0 : scratch_of(inner_call(call, Collective::bcast));
}

/// Reductions: the leader holds its group's result in the first scratch vector and the remote group's result
/// in the second.
struct GroupReduction {
  explicit GroupReduction(const Call& of)
      : call(of), vectors(of, of.send.count), inner(inner_call(of, Collective::reduce)) {
    inner.recv.count = call.send.count;
    inner.recv.counts = {};
    inner.recv.classified = false;
    inner.recv.address = leader(call) ? own() : nullptr;
    inner.results = leader(call) ? call.send.count : 0;
    inner.bytes = static_cast<uint64_t>(call.send.count * call.recv.type->size());
    inner.scratch = call.scratch + vectors.bytes(2);
  }
  [[nodiscard]] void* own() const { return vectors.at(0); }
  [[nodiscard]] void* other() const { return vectors.at(1); }
  [[nodiscard]] p2p::Buffer whole(const void* vector) const {
    return slice(call, vector, 0, call.send.count);
  }
  [[nodiscard]] size_t scratch() const { return vectors.bytes(2) + scratch_of(inner); }

  const Call& call;
  ScratchVectors vectors;
  Call inner;
};

Round reduce(const Call& call, int round, Stage& stage) {
  if (call.root == kRoot && round == 0) {
    stage.receive(call.recv.whole(), 0);
    return Round::more;
  }
  if (call.root < 0) return Round::done;
  const GroupReduction group(call);
  if (call.phase == 0) return local_group_phase(group.inner, call, round, stage);
  if (round > 0 || !leader(call)) return Round::done;
  stage.send(group.whole(group.own()), call.root);
  return Round::more;
}

size_t reduce_scratch(const Call& call) { return call.root < 0 ? 0 : GroupReduction(call).scratch(); }

/// The leaders exchange results; false if there is no such round.
bool exchange_results(const GroupReduction& group, const p2p::Buffer& into, int round, Stage& stage) {
  if (round > 0 || !leader(group.call)) return false;
  stage.receive(into, 0);
  stage.send(group.whole(group.own()), 0);
  return true;
}

Call inner_bcast(const Call& call) {
  Call inner = inner_call(call, Collective::bcast);
  inner.op = nullptr;
  return inner;
}

Round allreduce(const Call& call, int round, Stage& stage) {
  const GroupReduction group(call);
  if (call.phase == 0) return local_group_phase(group.inner, call, round, stage);
  if (call.phase == 2) return select::local_group_round(inner_bcast(call), call, round, stage);
  return exchange_results(group, call.recv.whole(), round, stage) ? Round::more : Round::next_phase;
}

size_t allreduce_scratch(const Call& call) {
  return std::max(GroupReduction(call).scratch(), scratch_of(inner_bcast(call)));
}

Round reduce_scatter(const Call& call, int round, Stage& stage) {
  const GroupReduction group(call);
  if (call.phase == 0) return local_group_phase(group.inner, call, round, stage);
  if (call.phase == 1)
    return exchange_results(group, group.whole(group.other()), round, stage) ? Round::more
                                                                             : Round::next_phase;
  const Part mine = share(call, call.rank);
  const Window window(round, 1, call.size, Stage::kTransfers);
  if (leader(call) ? round > 0 && window.empty() : round > 0 || mine.count == 0) return Round::done;
  if (leader(call) && round == 0) stage.copy(call.recv.part(0, mine.count), slice(call, group.other(), mine));
  stage.use_communicator(*call.comm->local);
  if (!leader(call)) stage.receive(call.recv.part(0, mine.count), 0);
  for (int i = window.first; leader(call) && i < window.last; ++i)
    if (const Part part = share(call, i); part.count > 0) stage.send(slice(call, group.other(), part), i);
  stage.use_communicator(*call.comm);
  return Round::more;
}

size_t group_scratch(const Call& call) { return GroupReduction(call).scratch(); }

/// Transfers between the root and each rank of the remote group.
Round rooted(const Call& call, int round, Stage& stage) {
  const bool gathers = call.what == Collective::gather || call.what == Collective::gatherv;
  if (call.root >= 0) {
    const p2p::Buffer mine = gathers ? call.send.whole() : call.recv.whole();
    if (round > 0 || empty(mine)) return Round::done;
    gathers ? stage.send(mine, call.root) : stage.receive(mine, call.root);
    return Round::more;
  }
  const Window window(round, 0, call.comm->remote_size(), Stage::kTransfers);
  if (call.root != kRoot || window.empty()) return Round::done;
  for (int i = window.first; i < window.last; ++i) {
    const p2p::Buffer block = gathers ? call.recv.block(i) : call.send.block(i);
    if (!empty(block)) gathers ? stage.receive(block, i) : stage.send(block, i);
  }
  return Round::more;
}

/// Direct exchange with all ranks of the remote group. Step k pairs the ranks whose sum is k modulo the size
/// of the larger group, on both sides, so that a window waits only for windows of the same number.
Round exchange(const Call& call, int round, Stage& stage) {
  const int others = call.comm->remote_size(), steps = std::max(call.size, others);
  const bool same_to_all = call.what == Collective::allgather || call.what == Collective::allgatherv;
  const Window window(round, 0, steps);
  if (window.empty()) return Round::done;
  const auto peer = [&](int step) { return (step - call.rank + steps) % steps; };
  for (int step = window.first; step < window.last; ++step) {
    const int source = peer(step);
    if (source >= others) continue;
    if (const p2p::Buffer block = call.recv.block(source); !empty(block)) stage.receive(block, source);
  }
  for (int step = window.first; step < window.last; ++step) {
    const int dest = peer(step);
    if (dest >= others) continue;
    const p2p::Buffer block = same_to_all ? call.send.whole() : call.send.block(dest);
    if (!empty(block)) stage.send(block, dest);
  }
  return Round::more;
}

constexpr Algorithm kBarrier{"leaders", barrier};
constexpr Algorithm kBcast{"leaders", bcast, bcast_scratch};
constexpr Algorithm kReduce{"leaders", reduce, reduce_scratch};
constexpr Algorithm kAllreduce{"leaders", allreduce, allreduce_scratch};
constexpr Algorithm kReduceScatter{"leaders", reduce_scatter, group_scratch};
constexpr Algorithm kRooted{"linear", rooted};
constexpr Algorithm kExchange{"exchange", exchange};

}  // namespace

const Algorithm& inter_algorithm(Collective what) {
  using enum Collective;
  switch (what) {
    case barrier:
      return kBarrier;
    case bcast:
      return kBcast;
    case reduce:
      return kReduce;
    case allreduce:
      return kAllreduce;
    case reduce_scatter:
    case reduce_scatter_block:
      return kReduceScatter;
    case gather:
    case gatherv:
    case scatter:
    case scatterv:
      return kRooted;
    default:  // the remaining collectives need an intracommunicator
      return kExchange;
  }
}

}  // namespace weft::coll::hierarchy
