// SPDX-License-Identifier: BSD-3-Clause
// Large collectives by hosts without leaders: each rank of a host has a part of the vector, or its own block,
// and exchanges it with the ranks of its place on the other hosts, all side by side: each with its own
// network adapter where there are several, each on its own core. Hosts with equally many ranks only.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/config.hpp"
#include "coll/algorithm/tree.hpp"
#include "coll/hierarchy.hpp"
#include "coll/hierarchy_steps.hpp"
#include "coll/hints.hpp"

namespace weft::coll {
namespace {

config::Size rails_min{
    "coll.hierarchy_rails_min", size_t{1} << 40, 0, size_t{1} << 40,
    "bytes of a vector, or of all blocks together, from which every rank of a host exchanges a "
    "part with other hosts, and not a leader everything: for hosts with several network adapters, "
    "equally many ranks on each"};

/// A piece of a vector, divided among the ranks of a host.
class Shares {
 public:
  explicit Shares(int ranks) : counts_(static_cast<size_t>(ranks)), places_(static_cast<size_t>(ranks)) {}
  void divide(int64_t elements) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      const algorithm::Part part(elements, static_cast<int>(counts_.size()), static_cast<int>(i));
      counts_[i] = part.count;
      places_[i] = part.first;
    }
  }
  [[nodiscard]] int64_t count(int rank) const { return counts_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int64_t place(int rank) const { return places_[static_cast<size_t>(rank)]; }
  /// The operand is a vector so divided; it refers to this object.
  void describe(Operand& operand) const {
    operand.counts = {counts_.data(), true};
    operand.displacements = {places_.data(), true};
    operand.blocks = static_cast<int>(counts_.size());
  }

 private:
  std::vector<int64_t> counts_, places_;
};

}  // namespace

/// Equal on all ranks.
bool Hierarchy::by_rails(const Call& call) const {
  if (!hosts_.even) return false;
  const uint64_t least = value_for(call, rails_min);
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

/// Each host's sum in parts, one with each of its ranks; each part among the ranks that have it; all parts to
/// all. The messages of a piece run while the next one is summed.
Status Hierarchy::allreduce_by_rails(const Call& call) {
  const int parts = local_->size(), own = local_->rank();
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call.recv.count, static_cast<int64_t>(element),
                      piece_bytes(call) * static_cast<uint64_t>(parts));
  Shares shares(parts);
  Operand largest = call.recv;
  largest.count = std::min(pieces.each, call.recv.count) / parts + 1;
  Like rooms[2];
  UnderWay messages(comm_.instance);
  Outcome outcome(call);
  for (Like& room : rooms) outcome.note(room.make(largest));
  const auto part_of = [&](int64_t i) {
    shares.divide(pieces.size(i));
    Operand part = rooms[i % 2].operand();
    part.count = shares.count(own);
    return part;
  };
  const auto scatter = [&](int64_t i) {
    Call inside = on(call, Collective::reduce_scatter, *local_, 0);
    narrow(inside, pieces.first(i), pieces.size(i), element);
    inside.recv = part_of(i);
    shares.describe(inside.recv);
    inside.results = inside.recv.count;
    outcome.run(inside);
  };
  const auto exchange = [&](int64_t i) {
    Call across = on(call, Collective::allreduce, *across_, 0);
    across.recv = across.send = part_of(i);
    across.in_place = true;
    across.results = across.recv.count;
    across.bytes = static_cast<uint64_t>(across.recv.count) * element;
    outcome.start(messages, across);
  };
  const auto gather = [&](int64_t i) {
    Call inside = on(call, Collective::allgatherv, *local_, 0);
    narrow(inside, pieces.first(i), pieces.size(i), element);
    inside.send = part_of(i);
    shares.describe(inside.recv);
    outcome.run(inside);
  };
  for (int64_t i = 0; i <= pieces.number(); ++i) {
    if (i < pieces.number()) scatter(i);
    outcome.note(messages.wait());
    if (i < pieces.number()) exchange(i);
    if (i > 0) gather(i - 1);
  }
  return outcome.take();
}

/// In the root's host everything to all, each of whom sends a part to the ranks of its place on the other
/// hosts; there all parts to all. The messages of a piece run while the one before is gathered.
Status Hierarchy::bcast_by_rails(const Call& call) {
  const int parts = local_->size(), own = local_->rank();
  const int home = hosts_.host_of(call.root), place = hosts_.place_of(call.root);
  const bool at_home = hosts_.host_of(comm_.rank()) == home;
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call.recv.count, static_cast<int64_t>(element),
                      piece_bytes(call) * static_cast<uint64_t>(parts));
  Shares shares(parts);
  UnderWay messages(comm_.instance);
  Outcome outcome(call);
  const auto inside = [&](Collective what, int64_t i) {
    Call part = on(call, what, *local_, place);
    narrow(part, pieces.first(i), pieces.size(i), element);
    shares.divide(pieces.size(i));
    return part;
  };
  const auto exchange = [&](int64_t i) {
    Call part = on(call, Collective::bcast, *across_, home);
    shares.divide(pieces.size(i));
    narrow(part, pieces.first(i) + shares.place(own), shares.count(own), element);
    outcome.start(messages, part);
  };
  const auto spread = [&](int64_t i) { outcome.run(inside(Collective::bcast, i)); };
  const auto gather = [&](int64_t i) {
    Call part = inside(Collective::allgatherv, i);
    part.in_place = true;
    shares.describe(part.recv);
    outcome.run(part);
  };
  if (!at_home) exchange(0);
  for (int64_t i = 0; i < pieces.number(); ++i) {
    if (at_home) {
      spread(i);
      outcome.note(messages.wait());
      exchange(i);
      continue;
    }
    outcome.note(messages.wait());
    if (i + 1 < pieces.number()) exchange(i + 1);
    gather(i);
  }
  outcome.note(messages.wait());
  return outcome.take();
}

/// Each rank's block to the ranks of its place on all hosts; then, host by host, the blocks of its ranks to
/// all.
Status Hierarchy::allgather_by_rails(const Call& call) {
  const int ranks = local_->size(), count = hosts_.count();
  std::vector<int64_t> counts(static_cast<size_t>(count), call.recv.count), places;
  for (int host = 0; host < count; ++host) places.push_back(int64_t{host} * ranks * call.recv.count);
  const auto block_at = [&](int64_t rank) {
    return advance(call.recv.address, rank * call.recv.count * call.recv.type->extent());
  };
  Outcome outcome(call);
  Call across = on(call, Collective::allgatherv, *across_, 0);
  across.in_place = call.in_place;
  across.recv.address = block_at(local_->rank());
  across.recv.counts = {counts.data(), true};
  across.recv.displacements = {places.data(), true};
  across.recv.blocks = count;
  across.bytes = call.bytes * static_cast<uint64_t>(count);
  outcome.run(across);
  for (int host = 0; host < count; ++host) {
    Call inside = on(call, Collective::allgather, *local_, 0);
    inside.in_place = true;
    inside.recv.address = block_at(int64_t{host} * ranks);
    inside.recv.blocks = ranks;
    inside.bytes = call.bytes;
    outcome.run(inside);
  }
  return outcome.take();
}

}  // namespace weft::coll
