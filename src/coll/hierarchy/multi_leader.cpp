// SPDX-License-Identifier: BSD-3-Clause
// Multi-leader collectives: every rank of a host exchanges its part of the vector, or its block, with the
// ranks of the same local rank on the other hosts, so that all network adapters and cores take part. Requires
// equally many ranks on all hosts.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/config.hpp"
#include "coll/algorithm/tree.hpp"
#include "coll/hierarchy/hierarchy.hpp"
#include "coll/hierarchy/steps.hpp"
#include "coll/schedule/hints.hpp"

namespace weft::coll {
namespace {

config::Size multi_leader_min{
    "coll.hierarchy_multi_leader_min_bytes", size_t{1} << 40, 0, size_t{1} << 40,
    "Smallest vector, or sum of all blocks, in bytes for which every rank of a host exchanges a part with "
    "other hosts, instead of one leader: for hosts with several network adapters and equally many ranks."};

/// A segment of a vector, divided among the ranks of a host.
class VectorPartition {
 public:
  explicit VectorPartition(int ranks)
      : counts_(static_cast<size_t>(ranks)), displacements_(static_cast<size_t>(ranks)) {}
  void divide(int64_t elements) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      const algorithm::Part part(elements, static_cast<int>(counts_.size()), static_cast<int>(i));
      counts_[i] = part.count;
      displacements_[i] = part.first;
    }
  }
  [[nodiscard]] int64_t count(int rank) const { return counts_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int64_t displacement(int rank) const { return displacements_[static_cast<size_t>(rank)]; }
  /// Sets the operand's counts and displacements, which refer to this object.
  void describe(Operand& operand) const {
    operand.counts = {counts_.data(), true};
    operand.displacements = {displacements_.data(), true};
    operand.blocks = static_cast<int>(counts_.size());
  }

 private:
  std::vector<int64_t> counts_, displacements_;
};

}  // namespace

/// Equal on all ranks.
bool Hierarchy::use_multi_leader(const Call& call) const {
  if (!hosts_.uniform) return false;
  const uint64_t least = value_for(call, multi_leader_min);
  switch (call.what) {
    case Collective::bcast:
    case Collective::allreduce:
      return call.bytes >= least;
    case Collective::allgather:
      return call.bytes * static_cast<uint64_t>(call.size) >= least;
    default:
      return false;
  }
}

/// Reduce-scatter in each host, allreduce of each part across hosts, allgatherv in each host. The messages of
/// a segment overlap with the reduction of the next segment.
Status Hierarchy::allreduce_multi_leader(const Call& call) {
  const int parts = local_comm_->size(), own = local_comm_->rank();
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const VectorSegments segments(call.recv.count, static_cast<int64_t>(element),
                                segment_bytes(call) * static_cast<uint64_t>(parts));
  VectorPartition partition(parts);
  Operand largest = call.recv;
  largest.count = std::min(segments.segment, call.recv.count) / parts + 1;
  TemporaryVector temporaries[2];
  InterHostRequest inter_host(comm_.instance);
  StepRunner steps(call);
  for (TemporaryVector& temporary : temporaries) steps.record_error(temporary.allocate(largest));
  const auto part_of = [&](int64_t i) {
    partition.divide(segments.size(i));
    Operand part = temporaries[i % 2].operand();
    part.count = partition.count(own);
    return part;
  };
  const auto scatter = [&](int64_t i) {
    Call inside = derive_call(call, Collective::reduce_scatter, *local_comm_, 0);
    select_elements(inside, segments.first(i), segments.size(i), element);
    inside.recv = part_of(i);
    partition.describe(inside.recv);
    inside.results = inside.recv.count;
    steps.run(inside);
  };
  const auto exchange = [&](int64_t i) {
    Call across = derive_call(call, Collective::allreduce, *inter_host_comm_, 0);
    across.recv = across.send = part_of(i);
    across.in_place = true;
    across.results = across.recv.count;
    across.bytes = static_cast<uint64_t>(across.recv.count) * element;
    steps.start(inter_host, across);
  };
  const auto gather = [&](int64_t i) {
    Call inside = derive_call(call, Collective::allgatherv, *local_comm_, 0);
    select_elements(inside, segments.first(i), segments.size(i), element);
    inside.send = part_of(i);
    partition.describe(inside.recv);
    steps.run(inside);
  };
  for (int64_t i = 0; i <= segments.count(); ++i) {
    if (i < segments.count()) scatter(i);
    steps.record_error(inter_host.wait());
    if (i < segments.count()) exchange(i);
    if (i > 0) gather(i - 1);
  }
  return steps.take();
}

/// Broadcast in the root's host, whose ranks each broadcast a part across hosts; allgatherv in the other
/// hosts. The messages of a segment overlap with the allgatherv of the previous segment.
Status Hierarchy::bcast_multi_leader(const Call& call) {
  const int parts = local_comm_->size(), own = local_comm_->rank();
  const int root_host = hosts_.host_of(call.root), root_local_rank = hosts_.local_rank_of(call.root);
  const bool on_root_host = hosts_.host_of(comm_.rank()) == root_host;
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const VectorSegments segments(call.recv.count, static_cast<int64_t>(element),
                                segment_bytes(call) * static_cast<uint64_t>(parts));
  VectorPartition partition(parts);
  InterHostRequest inter_host(comm_.instance);
  StepRunner steps(call);
  const auto inside = [&](Collective what, int64_t i) {
    Call part = derive_call(call, what, *local_comm_, root_local_rank);
    select_elements(part, segments.first(i), segments.size(i), element);
    partition.divide(segments.size(i));
    return part;
  };
  const auto exchange = [&](int64_t i) {
    Call part = derive_call(call, Collective::bcast, *inter_host_comm_, root_host);
    partition.divide(segments.size(i));
    select_elements(part, segments.first(i) + partition.displacement(own), partition.count(own), element);
    steps.start(inter_host, part);
  };
  const auto bcast_in_host = [&](int64_t i) { steps.run(inside(Collective::bcast, i)); };
  const auto gather = [&](int64_t i) {
    Call part = inside(Collective::allgatherv, i);
    part.in_place = true;
    partition.describe(part.recv);
    steps.run(part);
  };
  if (!on_root_host) exchange(0);
  for (int64_t i = 0; i < segments.count(); ++i) {
    if (on_root_host) {
      bcast_in_host(i);
      steps.record_error(inter_host.wait());
      exchange(i);
      continue;
    }
    steps.record_error(inter_host.wait());
    if (i + 1 < segments.count()) exchange(i + 1);
    gather(i);
  }
  steps.record_error(inter_host.wait());
  return steps.take();
}

/// Allgatherv of the blocks of equal local ranks across hosts; then an allgather in the host for each host's
/// blocks.
Status Hierarchy::allgather_multi_leader(const Call& call) {
  const int ranks = local_comm_->size(), count = hosts_.count();
  std::vector<int64_t> counts(static_cast<size_t>(count), call.recv.count), displacements;
  for (int host = 0; host < count; ++host) displacements.push_back(int64_t{host} * ranks * call.recv.count);
  const auto block_at = [&](int64_t rank) {
    return advance(call.recv.address, rank * call.recv.count * call.recv.type->extent());
  };
  StepRunner steps(call);
  Call across = derive_call(call, Collective::allgatherv, *inter_host_comm_, 0);
  across.in_place = call.in_place;
  across.recv.address = block_at(local_comm_->rank());
  across.recv.counts = {counts.data(), true};
  across.recv.displacements = {displacements.data(), true};
  across.recv.blocks = count;
  across.bytes = call.bytes * static_cast<uint64_t>(count);
  steps.run(across);
  for (int host = 0; host < count; ++host) {
    Call inside = derive_call(call, Collective::allgather, *local_comm_, 0);
    inside.in_place = true;
    inside.recv.address = block_at(int64_t{host} * ranks);
    inside.recv.blocks = ranks;
    inside.bytes = call.bytes;
    steps.run(inside);
  }
  return steps.take();
}

}  // namespace weft::coll
