// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: which calls, and their steps. Large vectors go in pieces, so that a leader's messages run while
// its host works on the next piece.
#include "coll/hierarchy.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "coll/construct.hpp"
#include "coll/copy.hpp"
#include "coll/hierarchy_steps.hpp"
#include "coll/hints.hpp"
#include "coll/select/table.hpp"

namespace weft::coll {
namespace {

config::Choice enabled{
    "coll.hierarchy",
    0,
    {"on", "off"},
    "collectives on several hosts inside each host first, where no algorithm is set for them"};
config::Size after{
    "coll.hierarchy_after", 8, 0, 1 << 30,
    "blocking collectives that a communicator on several hosts makes before it is split by hosts"};
config::Size messages_max{"coll.hierarchy_message_max", 16 << 10, 0, size_t{1} << 40,
                          "bytes of a vector or block up to which nonblocking and persistent collectives on "
                          "several hosts go inside each "
                          "host first"};

/// A reduction's rank that is not the root has nothing to receive.
void only_sends(Call& call) {
  call.recv.address = nullptr;
  call.recv.memory = {};
  call.results = 0;
}

/// One message inside a host: the vector that is received is what the other sends.
Round relay_round(const Call& call, int round, Stage& stage) {
  if (round > 0) return Round::done;
  if (call.rank == call.root)
    stage.receive(call.recv.whole(), 0);
  else
    stage.send(call.send.whole(), call.root);
  return Round::more;
}
const Algorithm relay{"relay", relay_round};

}  // namespace

Hierarchy& Hierarchy::in(core::Communicator& comm) {
  if (comm.collective == nullptr) comm.collective = std::make_unique<Hierarchy>(comm);
  return static_cast<Hierarchy&>(*comm.collective);
}

/// Sees only what is equal on all ranks.
bool Hierarchy::suits(const Call& call) {
  if (call.inter() || call.size < 3 || value_for(call, enabled) != 0 || select::forced(call.what))
    return false;
  const Hosts& hosts = hosts_of(*call.comm);
  if (!hosts.worth_a_hierarchy()) return false;
  switch (call.what) {
    case Collective::barrier:
    case Collective::bcast:
      return true;
    case Collective::reduce:
    case Collective::allreduce:
      return hosts.in_order || call.commutative();
    case Collective::allgather:
      return hosts.in_order;
    default:
      return false;
  }
}

bool Hierarchy::suits_messages(const Call& call) {
  return call.bytes <= value_for(call, messages_max) && suits(call);
}

Hierarchy* Hierarchy::of(const Call& call, Status& failed) {
  if (!suits(call)) return nullptr;
  Hierarchy& hierarchy = in(*call.comm);
  if (!hierarchy.local_) {
    if (hierarchy.calls_++ < after) return nullptr;
    failed = hierarchy.connect();
    if (!failed.ok()) return nullptr;
  }
  return &hierarchy;
}

Status Hierarchy::connect() {
  auto inside = split(comm_, hosts_.host_of(comm_.rank()), comm_.rank());
  if (!inside) return std::move(inside).error();
  const int place = hosts_.place_of(comm_.rank());
  auto across = split(comm_, place == 0 || hosts_.even ? place : -1, hosts_.host_of(comm_.rank()));
  if (!across) {
    (*inside)->release();
    return std::move(across).error();
  }
  local_ = core::Ref<core::Communicator>(*inside);
  across_ = core::Ref<core::Communicator>(*across);
  return {};
}

Status Hierarchy::run(const Call& call) {
  switch (call.what) {
    case Collective::barrier:
      return barrier();
    case Collective::bcast:
      return by_rails(call) || call.bytes > piece_bytes(call) ? bcast_stream(call) : bcast(call);
    case Collective::reduce:
      return reduce(call);
    case Collective::allreduce:
      return by_rails(call) ? allreduce_by_rails(call) : allreduce(call);
    default:
      return by_rails(call) ? allgather_by_rails(call) : allgather(call);
  }
}

Status Hierarchy::barrier() {
  const Call nothing;
  Outcome outcome(nothing);
  outcome.run(on(nothing, Collective::barrier, *local_, 0));
  if (leads()) outcome.run(on(nothing, Collective::barrier, *across_, 0));
  outcome.run(on(nothing, Collective::barrier, *local_, 0));
  return outcome.take();
}

/// A vector that goes in parts goes as its packed stream: the ranks' types may differ where that does not.
Status Hierarchy::bcast_stream(const Call& call) {
  const bool packed_already = call.recv.type->contiguous();
  Call stream = call;
  stream.recv.type = packed(nullptr, 0).type;
  stream.recv.count = static_cast<int64_t>(call.bytes);
  Like room;
  Outcome outcome(call);
  if (!packed_already) {
    outcome.note(room.make(stream.recv));
    stream.recv = room.operand();
    if (call.rank == call.root && outcome.error() == nullptr)
      outcome.note(local_copy(stream.recv.whole(), call.recv.whole()));
  }
  stream.failed = outcome.error();
  outcome.note(by_rails(call) ? bcast_by_rails(stream) : bcast(stream));
  if (!packed_already && call.rank != call.root && outcome.error() == nullptr)
    outcome.note(local_copy(call.recv.whole(), stream.recv.whole()));
  return outcome.take();
}

/// The host of the root first, then the leaders, then the others; each piece by itself.
Status Hierarchy::bcast(const Call& call) {
  const int home = hosts_.host_of(call.root), place = hosts_.place_of(call.root);
  const bool at_home = hosts_.host_of(comm_.rank()) == home;
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call.recv.count, static_cast<int64_t>(element), piece_bytes(call));
  UnderWay messages(comm_.instance);
  Outcome outcome(call);
  const auto inside = [&](int64_t i, int root) {
    Call part = on(call, Collective::bcast, *local_, root);
    narrow(part, pieces.first(i), pieces.size(i), element);
    outcome.run(part);
  };
  const auto between = [&](int64_t i) {
    Call part = on(call, Collective::bcast, *across_, home);
    narrow(part, pieces.first(i), pieces.size(i), element);
    outcome.start(messages, part);
  };
  if (leads() && !at_home) between(0);
  for (int64_t i = 0; i < pieces.number(); ++i) {
    if (at_home) {
      inside(i, place);
      outcome.note(messages.wait());
      if (leads()) between(i);
      continue;
    }
    outcome.note(messages.wait());
    if (leads() && i + 1 < pieces.number()) between(i + 1);
    inside(i, 0);
  }
  outcome.note(messages.wait());
  return outcome.take();
}

/// Each host's sum to its leader, the leaders' to each other, the result to all; a piece's messages run while
/// the next one is summed.
Status Hierarchy::allreduce(const Call& call) {
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call.recv.count, static_cast<int64_t>(element), piece_bytes(call));
  UnderWay messages(comm_.instance);
  Outcome outcome(call);
  const auto part_of = [&](Collective what, core::Communicator& comm, int64_t i) {
    Call part = on(call, what, comm, 0);
    narrow(part, pieces.first(i), pieces.size(i), element);
    return part;
  };
  const auto gather = [&](int64_t i) {
    Call part = part_of(Collective::reduce, *local_, i);
    part.in_place = call.in_place && leads();
    if (!leads()) only_sends(part);
    outcome.run(part);
  };
  const auto exchange = [&](int64_t i) {
    Call part = part_of(Collective::allreduce, *across_, i);
    part.in_place = true;
    part.send = part.recv;
    outcome.start(messages, part);
  };
  for (int64_t i = 0; i <= pieces.number(); ++i) {
    if (i < pieces.number()) gather(i);
    outcome.note(messages.wait());
    if (leads() && i < pieces.number()) exchange(i);
    if (i > 0) outcome.run(part_of(Collective::bcast, *local_, i - 1));
  }
  return outcome.take();
}

/// To the leaders, to the leader of the root's host, to the root.
Status Hierarchy::reduce(const Call& call) {
  const int home = hosts_.host_of(call.root), place = hosts_.place_of(call.root);
  const bool rooted = call.rank == call.root, at_home = hosts_.host_of(comm_.rank()) == home;
  Like room;
  Outcome outcome(call);
  Call inside = on(call, Collective::reduce, *local_, 0);
  narrow(inside, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
  inside.in_place = rooted && leads() && call.in_place;
  if (leads() && !rooted) {
    outcome.note(room.make(call.send));
    inside.recv = room.operand();
  }
  if (!leads()) only_sends(inside);
  outcome.run(inside);
  if (leads()) {
    Call between = on(inside, Collective::reduce, *across_, home);
    narrow(between, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
    between.send = inside.recv;
    between.in_place = at_home;
    if (!at_home) only_sends(between);
    outcome.run(between);
  }
  if (!at_home || place == 0) return outcome.take();
  Call last = on(call, Collective::bcast, *local_, place);
  const int tag = local_->next_collective_tag();
  if (!rooted && !leads()) return outcome.take();
  if (leads()) last.send = inside.recv;
  last.failed = outcome.error();
  Schedule schedule(last, tag, relay);
  schedule.begin();
  schedule.run();
  outcome.note(schedule.end());
  return outcome.take();
}

/// A host's blocks to its leader, all blocks to all leaders, everything to everybody.
Status Hierarchy::allgather(const Call& call) {
  const auto self = static_cast<size_t>(hosts_.host_of(comm_.rank()));
  const int64_t extent = call.recv.type->extent();
  const auto block_at = [&](int64_t rank) {
    return advance(call.recv.address, rank * call.recv.count * extent);
  };
  Call inside = on(call, Collective::gather, *local_, 0);
  Outcome outcome(call);
  inside.bytes = call.bytes;
  inside.recv.address = block_at(hosts_.leaders[self]);
  inside.recv.blocks = local_->size();
  inside.in_place = call.in_place && leads();
  if (call.in_place && !leads()) {
    inside.send = call.recv;
    inside.send.address = block_at(comm_.rank());
  }
  outcome.run(inside);
  if (leads()) {
    std::vector<int64_t> counts, places;
    for (int host = 0; host < hosts_.count(); ++host) {
      counts.push_back(static_cast<int64_t>(hosts_.at(host).size()) * call.recv.count);
      places.push_back(hosts_.leaders[static_cast<size_t>(host)] * call.recv.count);
    }
    Call between = on(call, Collective::allgatherv, *across_, 0);
    between.in_place = true;
    between.recv.counts = {counts.data(), true};
    between.recv.displacements = {places.data(), true};
    between.recv.blocks = static_cast<int>(counts.size());
    between.bytes = call.bytes * static_cast<uint64_t>(comm_.size());
    outcome.run(between);
  }
  Call last = on(call, Collective::bcast, *local_, 0);
  narrow(last, 0, call.recv.count * comm_.size(), static_cast<uint64_t>(call.recv.type->size()));
  outcome.run(last);
  return outcome.take();
}

}  // namespace weft::coll
