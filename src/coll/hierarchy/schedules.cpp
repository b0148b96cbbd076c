// SPDX-License-Identifier: BSD-3-Clause
// Hierarchical collectives by messages, in phases: in each host, among the hosts' leaders, in each host. Any
// algorithm of the table runs a phase on a subset of the ranks. For nonblocking and persistent calls and the
// first calls of a communicator; later blocking calls use coll/hierarchy/hierarchy.hpp.
#include "coll/hierarchy/schedules.hpp"

#include <algorithm>
#include <vector>

#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"
#include "coll/hierarchy/hierarchy.hpp"
#include "coll/select/table.hpp"

namespace weft::coll::hierarchy {

using namespace algorithm;

namespace {

/// A call and the hosts of its communicator. A root is the leader of its host.
struct HierarchicalCall {
  explicit HierarchicalCall(const Call& of, bool rooted = false)
      : call(of), hosts(Hierarchy::hosts_of(*of.comm)), own(hosts.host_of(of.rank)) {
    if (!rooted) return;
    root_host = hosts.host_of(of.root);
    leaders.replaced = root_host;
    leaders.rank = of.root;
  }
  /// The leader of this rank's host.
  [[nodiscard]] int leader() const { return leaders.rank_of(hosts.leaders.data(), own); }
  [[nodiscard]] bool is_leader() const { return call.rank == leader(); }

  /// The call among the ranks of this host, rooted at its leader.
  [[nodiscard]] Call inside(Collective what) const {
    Call inner = part(what);
    inner.rank = hosts.local_rank_of(call.rank);
    inner.size = static_cast<int>(hosts.ranks_on(own).size());
    inner.root = hosts.local_rank_of(leader());
    return inner;
  }
  /// The call among the leaders, rooted at the leader of the root's host.
  [[nodiscard]] Call among_leaders(Collective what) const {
    Call inner = part(what);
    inner.rank = own;
    inner.size = hosts.count();
    inner.root = root_host;
    return inner;
  }
  Round run_in_host(const Call& inner, int round, Stage& stage) const {
    return run(inner, {hosts.ranks_on(own).data()}, round, stage);
  }
  /// Returns Round::done at once on ranks that are not leaders.
  Round run_among_leaders(const Call& inner, int round, Stage& stage) const {
    return is_leader() ? run(inner, leaders.ranks(hosts.leaders.data()), round, stage) : Round::done;
  }

  const Call& call;
  const Hosts& hosts;
  int own, root_host = 0;

 private:
  /// The leaders of all hosts, with another rank (the root) for one host.
  struct LeaderMap {
    int replaced = -1, rank = -1;
    [[nodiscard]] int rank_of(const int* ranks, int host) const {
      return host == replaced ? rank : ranks[host];
    }
    [[nodiscard]] RankMap ranks(const int* host_leaders) const { return {host_leaders, replaced, rank}; }
  } leaders;

  [[nodiscard]] Call part(Collective what) const {
    Call inner = call;
    inner.what = what;
    inner.phase = 0;
    if (what == Collective::bcast) inner.op = nullptr;
    return inner;
  }
  static Round run(const Call& inner, const RankMap& ranks, int round, Stage& stage) {
    stage.use_ranks(ranks);
    const Round result = select::by_table(inner).round(inner, round, stage);
    stage.use_ranks({});
    return result;
  }
};

/// Round of a phase that another phase follows.
Round next_phase_when_done(Round result) { return result == Round::done ? Round::next_phase : result; }

size_t scratch_of(const Call& inner) {
  const Algorithm& chosen = select::by_table(inner);
  return chosen.scratch != nullptr ? chosen.scratch(inner) : 0;
}

Round barrier(const Call& call, int round, Stage& stage) {
  const HierarchicalCall hierarchy(call);
  if (call.phase == 1)
    return next_phase_when_done(
        hierarchy.run_among_leaders(hierarchy.among_leaders(Collective::barrier), round, stage));
  // In the last phase the ranks of a host wait for their leader.
  if (call.phase == 0)
    return next_phase_when_done(hierarchy.run_in_host(hierarchy.inside(Collective::barrier), round, stage));
  Call release = hierarchy.inside(Collective::bcast);
  const p2p::Buffer nothing = packed(nullptr, 0);
  release.recv.type = nothing.type;
  release.recv.count = 0;
  return hierarchy.run_in_host(release, round, stage);
}

Round bcast(const Call& call, int round, Stage& stage) {
  const HierarchicalCall hierarchy(call, true);
  if (call.phase == 0)
    return next_phase_when_done(
        hierarchy.run_among_leaders(hierarchy.among_leaders(Collective::bcast), round, stage));
  return hierarchy.run_in_host(hierarchy.inside(Collective::bcast), round, stage);
}

size_t bcast_scratch(const Call& call) {
  const HierarchicalCall hierarchy(call, true);
  return std::max(scratch_of(hierarchy.among_leaders(Collective::bcast)),
                  scratch_of(hierarchy.inside(Collective::bcast)));
}

/// Reduction inside a host to `result` of its leader.
Call reduce_inside(const HierarchicalCall& hierarchy, void* result, bool in_place) {
  Call inner = hierarchy.inside(Collective::reduce);
  inner.recv.count = hierarchy.call.send.count;
  inner.in_place = hierarchy.is_leader() && in_place;
  inner.recv.address = hierarchy.is_leader() ? result : nullptr;
  inner.results = hierarchy.is_leader() ? hierarchy.call.send.count : 0;
  return inner;
}

/// A leader that is not the root keeps its host's result in the first scratch vector.
struct HierarchicalReduce {
  explicit HierarchicalReduce(const Call& call)
      : hierarchy(call, true), vectors(call, call.send.count), rooted(call.rank == call.root) {
    inside = reduce_inside(hierarchy, rooted ? call.recv.address : vectors.at(0), call.in_place);
    if (!rooted) inside.recv.memory = call.on_gpu ? call.gpu : device::Memory();
    if (!rooted) inside.recv.classified = true;
    leading = hierarchy.among_leaders(Collective::reduce);
    leading.send = inside.recv;
    leading.send.count = call.send.count;
    leading.in_place = rooted;
    for (Call* inner : {&inside, &leading}) {
      inner->scratch = call.scratch + host_result_bytes();
      inner->scratch_bytes = call.scratch_bytes - std::min(call.scratch_bytes, host_result_bytes());
    }
  }
  [[nodiscard]] size_t scratch() const {
    return host_result_bytes() + std::max(scratch_of(inside), scratch_of(leading));
  }
  /// Bytes of scratch for the host's result.
  [[nodiscard]] size_t host_result_bytes() const {
    return hierarchy.is_leader() && !rooted ? vectors.bytes(1) : 0;
  }
  HierarchicalCall hierarchy;
  ScratchVectors vectors;
  bool rooted;
  Call inside, leading;
};

Round reduce(const Call& call, int round, Stage& stage) {
  const HierarchicalReduce reduction(call);
  if (call.phase == 0)
    return next_phase_when_done(reduction.hierarchy.run_in_host(reduction.inside, round, stage));
  return reduction.hierarchy.run_among_leaders(reduction.leading, round, stage);
}

size_t reduce_scratch(const Call& call) { return HierarchicalReduce(call).scratch(); }

/// In-place allreduce of the leaders' receive buffers.
Call allreduce_leaders(const HierarchicalCall& hierarchy) {
  Call inner = hierarchy.among_leaders(Collective::allreduce);
  inner.in_place = true;
  inner.send = inner.recv;
  inner.send.count = hierarchy.call.send.count;
  return inner;
}

Round allreduce(const Call& call, int round, Stage& stage) {
  const HierarchicalCall hierarchy(call);
  if (call.phase == 0)
    return next_phase_when_done(
        hierarchy.run_in_host(reduce_inside(hierarchy, call.recv.address, call.in_place), round, stage));
  if (call.phase == 1)
    return next_phase_when_done(hierarchy.run_among_leaders(allreduce_leaders(hierarchy), round, stage));
  return hierarchy.run_in_host(hierarchy.inside(Collective::bcast), round, stage);
}

size_t allreduce_scratch(const Call& call) {
  const HierarchicalCall hierarchy(call);
  return std::max({scratch_of(reduce_inside(hierarchy, call.recv.address, call.in_place)),
                   scratch_of(allreduce_leaders(hierarchy)),
                   scratch_of(hierarchy.inside(Collective::bcast))});
}

/// Gather in each host, allgatherv among leaders, broadcast in each host. Hosts have contiguous ranks.
struct HierarchicalAllgather {
  explicit HierarchicalAllgather(const Call& call)
      : hierarchy(call), inside(hierarchy.inside(Collective::gather)) {
    inside.recv.address = block_at(hierarchy.hosts.leaders[static_cast<size_t>(hierarchy.own)]);
    inside.recv.blocks = inside.size;
    inside.in_place = call.in_place && hierarchy.is_leader();
    if (!call.in_place || hierarchy.is_leader()) return;
    inside.send = call.recv;
    inside.send.address = block_at(call.rank);
  }
  [[nodiscard]] void* block_at(int rank) const {
    return advance(hierarchy.call.recv.address,
                   rank * hierarchy.call.recv.count * hierarchy.call.recv.type->extent());
  }
  /// The phase among leaders; fills `counts` and `displacements`, to which the call refers.
  [[nodiscard]] Call leading(std::vector<int64_t>& counts, std::vector<int64_t>& displacements) const {
    for (int host = 0; host < hierarchy.hosts.count(); ++host) {
      counts.push_back(static_cast<int64_t>(hierarchy.hosts.ranks_on(host).size()) *
                       hierarchy.call.recv.count);
      displacements.push_back(hierarchy.hosts.leaders[static_cast<size_t>(host)] * hierarchy.call.recv.count);
    }
    Call inner = hierarchy.among_leaders(Collective::allgatherv);
    inner.in_place = true;
    inner.recv.counts = {counts.data(), true};
    inner.recv.displacements = {displacements.data(), true};
    inner.recv.blocks = hierarchy.hosts.count();
    inner.bytes = hierarchy.call.bytes * static_cast<uint64_t>(hierarchy.call.size);
    return inner;
  }
  [[nodiscard]] Call full_bcast() const {
    Call inner = hierarchy.inside(Collective::bcast);
    inner.recv.count = hierarchy.call.recv.count * hierarchy.call.size;
    inner.bytes = hierarchy.call.bytes * static_cast<uint64_t>(hierarchy.call.size);
    return inner;
  }
  HierarchicalCall hierarchy;
  Call inside;
};

Round allgather(const Call& call, int round, Stage& stage) {
  const HierarchicalAllgather steps(call);
  if (call.phase == 0) return next_phase_when_done(steps.hierarchy.run_in_host(steps.inside, round, stage));
  if (call.phase == 2) return steps.hierarchy.run_in_host(steps.full_bcast(), round, stage);
  std::vector<int64_t> counts, displacements;
  return next_phase_when_done(
      steps.hierarchy.run_among_leaders(steps.leading(counts, displacements), round, stage));
}

size_t allgather_scratch(const Call& call) {
  const HierarchicalAllgather steps(call);
  return std::max(scratch_of(steps.inside), scratch_of(steps.full_bcast()));
}

constexpr Algorithm kBarrier{"hierarchical", barrier};
constexpr Algorithm kBcast{"hierarchical", bcast, bcast_scratch};
constexpr Algorithm kReduce{"hierarchical", reduce, reduce_scratch};
constexpr Algorithm kAllreduce{"hierarchical", allreduce, allreduce_scratch};
constexpr Algorithm kAllgather{"hierarchical", allgather, allgather_scratch};

}  // namespace

const Algorithm* hierarchical(Collective what) {
  switch (what) {
    case Collective::barrier:
      return &kBarrier;
    case Collective::bcast:
      return &kBcast;
    case Collective::reduce:
      return &kReduce;
    case Collective::allreduce:
      return &kAllreduce;
    case Collective::allgather:
      return &kAllgather;
    default:
      return nullptr;
  }
}

}  // namespace weft::coll::hierarchy
