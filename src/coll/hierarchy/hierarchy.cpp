// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: eligible calls and their steps. Large vectors are segmented, so that a leader's messages overlap
// with its host's work on the next segment.
#include "coll/hierarchy/hierarchy.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "coll/algorithm/order.hpp"
#include "coll/construct/communicators.hpp"
#include "coll/hierarchy/steps.hpp"
#include "coll/schedule/copy.hpp"
#include "coll/schedule/hints.hpp"
#include "coll/select/table.hpp"

namespace weft::coll {
namespace {

config::Choice enabled{
    "coll.hierarchy",
    0,
    {"on", "off"},
    "Hierarchical collectives on several hosts, where no algorithm is set for them.",
    "flat collectives are faster on this cluster, or a problem may be in hierarchical ones (off)"};
config::Size min_calls{
    "coll.hierarchy_min_calls", 8, 0, 1 << 30,
    "Number of blocking collectives on a communicator of several hosts before it is split by hosts."};
config::Size nonblocking_max{
    "coll.hierarchy_nonblocking_max_bytes", 16 << 10, 0, size_t{1} << 40,
    "Largest vector or block in bytes of hierarchical nonblocking and persistent collectives; larger "
    "ones use a flat algorithm, except reductions whose order of terms depends on the hosts."};

/// Clears the receive operand: a rank other than the root receives no result of a reduction.
void clear_recv(Call& call) {
  call.recv.address = nullptr;
  call.recv.memory = {};
  call.results = 0;
}

/// One message inside a host: local rank 0 sends the result to the root.
Round forward_round(const Call& call, int round, Stage& stage) {
  if (round > 0) return Round::done;
  if (call.rank == call.root)
    stage.receive(call.recv.whole(), 0);
  else
    stage.send(call.send.whole(), call.root);
  return Round::more;
}
const Algorithm forward{"forward", forward_round};

}  // namespace

Hierarchy::~Hierarchy() {
  for (core::Communicator* const part : {local_comm_.get(), inter_host_comm_.get()})
    if (part != nullptr) part->part_of = nullptr;
}

Hierarchy& Hierarchy::attached_to(core::Communicator& comm) {
  if (comm.collective == nullptr) comm.collective = std::make_unique<Hierarchy>(comm);
  return static_cast<Hierarchy&>(*comm.collective);
}

/// Depends only on values equal on all ranks.
bool Hierarchy::eligible(const Call& call) {
  if (call.inter() || call.size < 3 || value_for(call, enabled) != 0 || select::forced(call.what))
    return false;
  const Hosts& hosts = hosts_of(*call.comm);
  if (!hosts.has_hierarchy()) return false;
  switch (call.what) {
    case Collective::barrier:
    case Collective::bcast:
      return true;
    case Collective::reduce:
    case Collective::allreduce:
      return (hosts.ranks_contiguous || call.commutative()) && !algorithm::rank_order(call);
    case Collective::allgather:
      return hosts.ranks_contiguous;
    default:
      return false;
  }
}

bool Hierarchy::eligible_for_schedule(const Call& call) {
  // A reduction whose order of terms depends on the hosts keeps that order for all sizes.
  const bool all_sizes = call.reduction() && !call.inter() && !hosts_of(*call.comm).tree_order;
  return (all_sizes || call.bytes <= value_for(call, nonblocking_max)) && eligible(call);
}

Hierarchy* Hierarchy::for_call(const Call& call, Status& failed) {
  if (!eligible(call)) return nullptr;
  Hierarchy& hierarchy = attached_to(*call.comm);
  if (!hierarchy.local_comm_) {
    if (hierarchy.calls_++ < min_calls) return nullptr;
    failed = hierarchy.create_communicators();
    if (!failed.ok()) return nullptr;
  }
  return &hierarchy;
}

Status Hierarchy::create_communicators() {
  auto inside = split(comm_, hosts_.host_of(comm_.rank()), comm_.rank());
  if (!inside) return std::move(inside).error();
  auto across = split(comm_, is_leader() ? 0 : -1, hosts_.host_of(comm_.rank()));
  if (!across) {
    (*inside)->release();
    return std::move(across).error();
  }
  for (core::Communicator* const part : {*inside, *across})
    if (part != nullptr) comm_.instance.failures.make_part(*part, comm_);
  local_comm_ = core::Ref<core::Communicator>(*inside);
  inter_host_comm_ = core::Ref<core::Communicator>(*across);
  return {};
}

/// A rank whose leader gives up gets an empty message; its error is the failure all the same.
Status Hierarchy::run(const Call& call) {
  Status outcome = run_steps(call);
  if (outcome.ok()) [[likely]]
    return outcome;
  Status alive = comm_.instance.failures.check(comm_);
  return alive.ok() ? std::move(outcome) : std::move(alive);
}

Status Hierarchy::run_steps(const Call& call) {
  switch (call.what) {
    case Collective::barrier:
      return barrier();
    case Collective::bcast:
      return call.bytes > segment_bytes(call) ? bcast_packed(call) : bcast(call);
    case Collective::reduce:
      return reduce(call);
    case Collective::allreduce:
      return allreduce(call);
    default:
      return allgather(call);
  }
}

Status Hierarchy::barrier() {
  const Call nothing;
  StepRunner steps(nothing);
  steps.run(derive_call(nothing, Collective::barrier, *local_comm_, 0));
  if (is_leader()) steps.run(derive_call(nothing, Collective::barrier, *inter_host_comm_, 0));
  steps.run(derive_call(nothing, Collective::barrier, *local_comm_, 0));
  return steps.take();
}

/// A segmented vector is sent packed: the ranks' types may differ, but not their packed data.
Status Hierarchy::bcast_packed(const Call& call) {
  const bool contiguous = call.recv.type->contiguous();
  Call packed_call = call;
  packed_call.recv.type = packed(nullptr, 0).type;
  packed_call.recv.count = static_cast<int64_t>(call.bytes);
  TemporaryVector temporary;
  StepRunner steps(call);
  if (!contiguous) {
    steps.record_error(temporary.allocate(packed_call.recv));
    packed_call.recv = temporary.operand();
    if (call.rank == call.root && steps.error() == nullptr)
      steps.record_error(local_copy(packed_call.recv.whole(), call.recv.whole()));
  }
  packed_call.failed = steps.error();
  steps.record_error(bcast(packed_call));
  if (!contiguous && call.rank != call.root && steps.error() == nullptr)
    steps.record_error(local_copy(call.recv.whole(), packed_call.recv.whole()));
  return steps.take();
}

/// Segment by segment: the root's host, then the leaders, then the other hosts.
Status Hierarchy::bcast(const Call& call) {
  const int root_host = hosts_.host_of(call.root), root_local_rank = hosts_.local_rank_of(call.root);
  const bool on_root_host = hosts_.host_of(comm_.rank()) == root_host;
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const VectorSegments segments(call.recv.count, static_cast<int64_t>(element), segment_bytes(call));
  InterHostRequest inter_host(comm_.instance);
  StepRunner steps(call);
  const auto inside = [&](int64_t i, int root) {
    Call part = derive_call(call, Collective::bcast, *local_comm_, root);
    select_elements(part, segments.first(i), segments.size(i), element);
    steps.run(part);
  };
  const auto between = [&](int64_t i) {
    Call part = derive_call(call, Collective::bcast, *inter_host_comm_, root_host);
    select_elements(part, segments.first(i), segments.size(i), element);
    steps.start(inter_host, part);
  };
  if (is_leader() && !on_root_host) between(0);
  for (int64_t i = 0; i < segments.count(); ++i) {
    if (on_root_host) {
      inside(i, root_local_rank);
      steps.record_error(inter_host.wait());
      if (is_leader()) between(i);
      continue;
    }
    steps.record_error(inter_host.wait());
    if (is_leader() && i + 1 < segments.count()) between(i + 1);
    inside(i, 0);
  }
  steps.record_error(inter_host.wait());
  return steps.take();
}

/// Reduce in each host, allreduce among leaders, broadcast in each host. The messages of a segment overlap
/// with the reduction of the next segment.
Status Hierarchy::allreduce(const Call& call) {
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const VectorSegments segments(call.recv.count, static_cast<int64_t>(element), segment_bytes(call));
  InterHostRequest inter_host(comm_.instance);
  StepRunner steps(call);
  const auto part_of = [&](Collective what, core::Communicator& comm, int64_t i) {
    Call part = derive_call(call, what, comm, 0);
    select_elements(part, segments.first(i), segments.size(i), element);
    return part;
  };
  const auto gather = [&](int64_t i) {
    Call part = part_of(Collective::reduce, *local_comm_, i);
    part.in_place = call.in_place && is_leader();
    if (!is_leader()) clear_recv(part);
    steps.run(part);
  };
  const auto exchange = [&](int64_t i) {
    Call part = part_of(Collective::allreduce, *inter_host_comm_, i);
    part.in_place = true;
    part.send = part.recv;
    steps.start(inter_host, part);
  };
  for (int64_t i = 0; i <= segments.count(); ++i) {
    if (i < segments.count()) gather(i);
    steps.record_error(inter_host.wait());
    if (is_leader() && i < segments.count()) exchange(i);
    if (i > 0) steps.run(part_of(Collective::bcast, *local_comm_, i - 1));
  }
  return steps.take();
}

/// Reduce to the leaders, then to the leader of the root's host, which sends the result to the root.
Status Hierarchy::reduce(const Call& call) {
  const int root_host = hosts_.host_of(call.root), root_local_rank = hosts_.local_rank_of(call.root);
  const bool rooted = call.rank == call.root, on_root_host = hosts_.host_of(comm_.rank()) == root_host;
  TemporaryVector temporary;
  StepRunner steps(call);
  Call inside = derive_call(call, Collective::reduce, *local_comm_, 0);
  select_elements(inside, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
  inside.in_place = rooted && is_leader() && call.in_place;
  if (is_leader() && !rooted) {
    steps.record_error(temporary.allocate(call.send));
    inside.recv = temporary.operand();
  }
  if (!is_leader()) clear_recv(inside);
  steps.run(inside);
  if (is_leader()) {
    Call between = derive_call(inside, Collective::reduce, *inter_host_comm_, root_host);
    select_elements(between, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
    between.send = inside.recv;
    between.in_place = on_root_host;
    if (!on_root_host) clear_recv(between);
    steps.run(between);
  }
  if (!on_root_host || root_local_rank == 0) return steps.take();
  Call last = derive_call(call, Collective::bcast, *local_comm_, root_local_rank);
  const int tag = local_comm_->next_collective_tag();
  if (!rooted && !is_leader()) return steps.take();
  if (is_leader()) last.send = inside.recv;
  last.failed = steps.error();
  Schedule schedule(last, tag, forward);
  schedule.begin();
  schedule.run();
  steps.record_error(schedule.end());
  return steps.take();
}

/// Gather in each host, allgatherv among leaders, broadcast in each host.
Status Hierarchy::allgather(const Call& call) {
  const auto self = static_cast<size_t>(hosts_.host_of(comm_.rank()));
  const int64_t extent = call.recv.type->extent();
  const auto block_at = [&](int64_t rank) {
    return advance(call.recv.address, rank * call.recv.count * extent);
  };
  Call inside = derive_call(call, Collective::gather, *local_comm_, 0);
  StepRunner steps(call);
  inside.bytes = call.bytes;
  inside.recv.address = block_at(hosts_.leaders[self]);
  inside.recv.blocks = local_comm_->size();
  inside.in_place = call.in_place && is_leader();
  if (call.in_place && !is_leader()) {
    inside.send = call.recv;
    inside.send.address = block_at(comm_.rank());
  }
  steps.run(inside);
  if (is_leader()) {
    std::vector<int64_t> counts, displacements;
    for (int host = 0; host < hosts_.count(); ++host) {
      counts.push_back(static_cast<int64_t>(hosts_.ranks_on(host).size()) * call.recv.count);
      displacements.push_back(hosts_.leaders[static_cast<size_t>(host)] * call.recv.count);
    }
    Call between = derive_call(call, Collective::allgatherv, *inter_host_comm_, 0);
    between.in_place = true;
    between.recv.counts = {counts.data(), true};
    between.recv.displacements = {displacements.data(), true};
    between.recv.blocks = static_cast<int>(counts.size());
    between.bytes = call.bytes * static_cast<uint64_t>(comm_.size());
    steps.run(between);
  }
  Call last = derive_call(call, Collective::bcast, *local_comm_, 0);
  select_elements(last, 0, call.recv.count * comm_.size(), static_cast<uint64_t>(call.recv.type->size()));
  steps.run(last);
  return steps.take();
}

}  // namespace weft::coll
