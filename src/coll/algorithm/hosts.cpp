// SPDX-License-Identifier: BSD-3-Clause
// Collectives on several hosts by messages, in phases: among the ranks of each host, among one leader of each
// host, among the ranks of each host again. Any program of the table does a phase, on some of the ranks. For
// calls that are not blocking, and for the first ones of a communicator; blocking ones have
// coll/hierarchy.hpp.
#include <algorithm>
#include <vector>

#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"
#include "coll/hierarchy.hpp"
#include "coll/select/table.hpp"

namespace weft::coll::algorithm {
namespace {

/// A call with its hosts. The root, if there is one, leads its host.
struct ByHosts {
  explicit ByHosts(const Call& of, bool rooted = false)
      : call(of), hosts(Hierarchy::hosts_of(*of.comm)), own(hosts.host_of(of.rank)) {
    if (!rooted) return;
    home = hosts.host_of(of.root);
    leading.instead = home;
    leading.rank = of.root;
  }
  /// The rank that leads this rank's host.
  [[nodiscard]] int leader() const { return leading.of(hosts.leaders.data(), own); }
  [[nodiscard]] bool leads() const { return call.rank == leader(); }

  /// The call among the ranks of this host, rooted at its leader.
  [[nodiscard]] Call inside(Collective what) const {
    Call inner = part(what);
    inner.rank = hosts.place_of(call.rank);
    inner.size = static_cast<int>(hosts.at(own).size());
    inner.root = hosts.place_of(leader());
    return inner;
  }
  /// The call among the leaders, rooted at that of the root's host.
  [[nodiscard]] Call among_leaders(Collective what) const {
    Call inner = part(what);
    inner.rank = own;
    inner.size = hosts.count();
    inner.root = home;
    return inner;
  }
  Round run_inside(const Call& inner, int round, Stage& stage) const {
    return run(inner, {hosts.at(own).data()}, round, stage);
  }
  /// Ranks that do not lead have nothing to do.
  Round run_among_leaders(const Call& inner, int round, Stage& stage) const {
    return leads() ? run(inner, leading.to(hosts.leaders.data()), round, stage) : Round::done;
  }

  const Call& call;
  const Hosts& hosts;
  int own, home = 0;

 private:
  /// The leaders, but for one host another rank.
  struct Leading {
    int instead = -1, rank = -1;
    [[nodiscard]] int of(const int* leaders, int host) const {
      return host == instead ? rank : leaders[host];
    }
    [[nodiscard]] Peers to(const int* leaders) const { return {leaders, instead, rank}; }
  } leading;

  [[nodiscard]] Call part(Collective what) const {
    Call inner = call;
    inner.what = what;
    inner.phase = 0;
    if (what == Collective::bcast) inner.op = nullptr;
    return inner;
  }
  static Round run(const Call& inner, const Peers& peers, int round, Stage& stage) {
    stage.among(peers);
    const Round made = select::by_table(inner).round(inner, round, stage);
    stage.among({});
    return made;
  }
};

/// Others follow.
Round then_next(Round made) { return made == Round::done ? Round::next : made; }

size_t scratch_of(const Call& inner) {
  const Algorithm& chosen = select::by_table(inner);
  return chosen.scratch != nullptr ? chosen.scratch(inner) : 0;
}

Round barrier(const Call& call, int round, Stage& stage) {
  const ByHosts by(call);
  if (call.phase == 1)
    return then_next(by.run_among_leaders(by.among_leaders(Collective::barrier), round, stage));
  // In the end everybody waits for its leader, which has heard of all.
  if (call.phase == 0) return then_next(by.run_inside(by.inside(Collective::barrier), round, stage));
  Call release = by.inside(Collective::bcast);
  const p2p::Buffer nothing = packed(nullptr, 0);
  release.recv.type = nothing.type;
  release.recv.count = 0;
  return by.run_inside(release, round, stage);
}

Round bcast(const Call& call, int round, Stage& stage) {
  const ByHosts by(call, true);
  if (call.phase == 0)
    return then_next(by.run_among_leaders(by.among_leaders(Collective::bcast), round, stage));
  return by.run_inside(by.inside(Collective::bcast), round, stage);
}

size_t bcast_scratch(const Call& call) {
  const ByHosts by(call, true);
  return std::max(scratch_of(by.among_leaders(Collective::bcast)), scratch_of(by.inside(Collective::bcast)));
}

/// Reductions: a host's result comes to its leader, to `result`.
Call reduce_inside(const ByHosts& by, void* result, bool in_place) {
  Call inner = by.inside(Collective::reduce);
  inner.recv.count = by.call.send.count;
  inner.in_place = by.leads() && in_place;
  inner.recv.address = by.leads() ? result : nullptr;
  inner.results = by.leads() ? by.call.send.count : 0;
  return inner;
}

/// A leader that is not the root has its host's result in the first area of scratch.
struct Reduction {
  explicit Reduction(const Call& call)
      : by(call, true), areas(call, call.send.count), rooted(call.rank == call.root) {
    inside = reduce_inside(by, rooted ? call.recv.address : areas.at(0), call.in_place);
    if (!rooted) inside.recv.memory = call.on_gpu ? call.gpu : device::Memory();
    if (!rooted) inside.recv.classified = true;
    leading = by.among_leaders(Collective::reduce);
    leading.send = inside.recv;
    leading.send.count = call.send.count;
    leading.in_place = rooted;
    for (Call* inner : {&inside, &leading}) {
      inner->scratch = call.scratch + kept();
      inner->scratch_bytes = call.scratch_bytes - std::min(call.scratch_bytes, kept());
    }
  }
  [[nodiscard]] size_t scratch() const { return kept() + std::max(scratch_of(inside), scratch_of(leading)); }
  /// Bytes of scratch for the host's result.
  [[nodiscard]] size_t kept() const { return by.leads() && !rooted ? areas.bytes(1) : 0; }
  ByHosts by;
  Areas areas;
  bool rooted;
  Call inside, leading;
};

Round reduce(const Call& call, int round, Stage& stage) {
  const Reduction reduction(call);
  if (call.phase == 0) return then_next(reduction.by.run_inside(reduction.inside, round, stage));
  return reduction.by.run_among_leaders(reduction.leading, round, stage);
}

size_t reduce_scratch(const Call& call) { return Reduction(call).scratch(); }

/// In place, of what the leaders have in their buffers for the result.
Call allreduce_leaders(const ByHosts& by) {
  Call inner = by.among_leaders(Collective::allreduce);
  inner.in_place = true;
  inner.send = inner.recv;
  inner.send.count = by.call.send.count;
  return inner;
}

Round allreduce(const Call& call, int round, Stage& stage) {
  const ByHosts by(call);
  if (call.phase == 0)
    return then_next(by.run_inside(reduce_inside(by, call.recv.address, call.in_place), round, stage));
  if (call.phase == 1) return then_next(by.run_among_leaders(allreduce_leaders(by), round, stage));
  return by.run_inside(by.inside(Collective::bcast), round, stage);
}

size_t allreduce_scratch(const Call& call) {
  const ByHosts by(call);
  return std::max({scratch_of(reduce_inside(by, call.recv.address, call.in_place)),
                   scratch_of(allreduce_leaders(by)), scratch_of(by.inside(Collective::bcast))});
}

/// A host's blocks come to its leader, all blocks to all leaders, everything to everybody. Hosts are in
/// order.
struct Gathering {
  explicit Gathering(const Call& call) : by(call), inside(by.inside(Collective::gather)) {
    inside.recv.address = block_at(by.hosts.leaders[static_cast<size_t>(by.own)]);
    inside.recv.blocks = inside.size;
    inside.in_place = call.in_place && by.leads();
    if (!call.in_place || by.leads()) return;
    inside.send = call.recv;
    inside.send.address = block_at(call.rank);
  }
  [[nodiscard]] void* block_at(int rank) const {
    return advance(by.call.recv.address, rank * by.call.recv.count * by.call.recv.type->extent());
  }
  /// Needs room for the numbers.
  [[nodiscard]] Call leading(std::vector<int64_t>& counts, std::vector<int64_t>& places) const {
    for (int host = 0; host < by.hosts.count(); ++host) {
      counts.push_back(static_cast<int64_t>(by.hosts.at(host).size()) * by.call.recv.count);
      places.push_back(by.hosts.leaders[static_cast<size_t>(host)] * by.call.recv.count);
    }
    Call inner = by.among_leaders(Collective::allgatherv);
    inner.in_place = true;
    inner.recv.counts = {counts.data(), true};
    inner.recv.displacements = {places.data(), true};
    inner.recv.blocks = by.hosts.count();
    inner.bytes = by.call.bytes * static_cast<uint64_t>(by.call.size);
    return inner;
  }
  [[nodiscard]] Call everything() const {
    Call inner = by.inside(Collective::bcast);
    inner.recv.count = by.call.recv.count * by.call.size;
    inner.bytes = by.call.bytes * static_cast<uint64_t>(by.call.size);
    return inner;
  }
  ByHosts by;
  Call inside;
};

Round allgather(const Call& call, int round, Stage& stage) {
  const Gathering gathering(call);
  if (call.phase == 0) return then_next(gathering.by.run_inside(gathering.inside, round, stage));
  if (call.phase == 2) return gathering.by.run_inside(gathering.everything(), round, stage);
  std::vector<int64_t> counts, places;
  return then_next(gathering.by.run_among_leaders(gathering.leading(counts, places), round, stage));
}

size_t allgather_scratch(const Call& call) {
  const Gathering gathering(call);
  return std::max(scratch_of(gathering.inside), scratch_of(gathering.everything()));
}

constexpr Algorithm kBarrier{"by_hosts", barrier};
constexpr Algorithm kBcast{"by_hosts", bcast, bcast_scratch};
constexpr Algorithm kReduce{"by_hosts", reduce, reduce_scratch};
constexpr Algorithm kAllreduce{"by_hosts", allreduce, allreduce_scratch};
constexpr Algorithm kAllgather{"by_hosts", allgather, allgather_scratch};

}  // namespace

const Algorithm* by_hosts(Collective what) {
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

}  // namespace weft::coll::algorithm
