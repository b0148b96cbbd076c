// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: which calls, and their steps. Large vectors go in pieces, so that a leader's messages run while
// its host works on the next piece.
#include "coll/hierarchy.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/config.hpp"
#include "coll/construct.hpp"
#include "coll/copy.hpp"
#include "coll/hints.hpp"
#include "coll/schedule.hpp"
#include "coll/select/table.hpp"
#include "core/instance.hpp"
#include "device/workspace.hpp"

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
config::Size piece{"coll.hierarchy_piece", 512 << 10, 1, size_t{1} << 40,
                   "bytes of a vector that leaders pass on while their hosts work on the next ones"};

config::Size messages_max{"coll.hierarchy_message_max", 16 << 10, 0, size_t{1} << 40,
                          "bytes of a vector or block up to which nonblocking and persistent collectives on "
                          "several hosts go inside each "
                          "host first"};

/// A call on another communicator with the same vector.
Call on(const Call& whole, Collective what, core::Communicator& comm, int root) {
  Call call;
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  call.root = root;
  call.send = whole.send;
  call.recv = whole.recv;
  if (what == Collective::reduce || what == Collective::allreduce) call.op = whole.op;
  return call;
}

/// A reduction's rank that is not the root has nothing to receive.
void only_sends(Call& call) {
  call.recv.address = nullptr;
  call.recv.memory = {};
  call.results = 0;
}

/// Its elements [first, first + n) only.
void narrow(Call& call, int64_t first, int64_t n, uint64_t element) {
  for (Operand* operand : {&call.send, &call.recv}) {
    if (operand->type == nullptr) continue;
    operand->address = advance(operand->address, first * operand->type->extent());
    operand->count = n;
  }
  call.results = n;
  call.bytes = static_cast<uint64_t>(n) * element;
}

/// A vector in pieces.
struct Pieces {
  int64_t count, each;
  Pieces(const Call& call, int64_t elements, int64_t element_bytes)
      : count(elements),
        each(std::max<int64_t>(
            1, static_cast<int64_t>(value_for(call, piece)) / std::max<int64_t>(1, element_bytes))) {}
  [[nodiscard]] int64_t number() const { return std::max<int64_t>(1, (count + each - 1) / each); }
  [[nodiscard]] int64_t first(int64_t i) const { return i * each; }
  [[nodiscard]] int64_t size(int64_t i) const { return std::min(each, count - first(i)); }
};

/// The leaders' messages of a few pieces, awaited in their order.
class UnderWay {
 public:
  explicit UnderWay(core::Instance& instance) : instance_(instance) {}
  ~UnderWay() { static_cast<void>(wait()); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  [[nodiscard]] Status start(const Call& call) {
    auto started = coll::start(call);
    if (!started) return std::move(started).error();
    request_ = *started;
    return {};
  }
  [[nodiscard]] Status wait() {
    if (request_ == nullptr) return {};
    core::Request* const request = std::exchange(request_, nullptr);
    core::wait(instance_, *request);
    Status outcome = std::move(request->outcome);
    request->destroy();
    return outcome;
  }

 private:
  core::Instance& instance_;
  core::Request* request_ = nullptr;
};

/// The first error of a call's steps. All are made whatever happened: others wait for them.
class Outcome {
 public:
  void note(Status status) {
    if (!status.ok() && first_.ok()) first_ = std::move(status);
  }
  [[nodiscard]] Status take() { return std::move(first_); }

 private:
  Status first_;
};

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

/// Room for a vector like an operand, in the same kind of memory.
class Like {
 public:
  [[nodiscard]] Status make(const Operand& operand) {
    const Span span(*operand.type, operand.count);
    operand_ = operand;
    if (operand.on_device()) {
      auto leased = device::Workspace::lease(operand.memory, span.bytes);
      if (!leased) return std::move(leased).error();
      workspace_ = std::move(*leased);
      operand_.memory = workspace_.memory();
      operand_.address = reinterpret_cast<void*>(operand_.memory.base + static_cast<uint64_t>(span.origin));
      return {};
    }
    heap_.reset(new (std::nothrow) std::byte[span.bytes]);
    if (heap_ == nullptr) return Error(Errc::no_mem, "no memory for the result of a host's ranks");
    operand_.address = heap_.get() + span.origin;
    operand_.memory = {};
    operand_.classified = true;
    return {};
  }
  [[nodiscard]] const Operand& operand() const { return operand_; }

 private:
  Operand operand_;
  device::Workspace workspace_;
  std::unique_ptr<std::byte[]> heap_;
};

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
  auto among = split(comm_, hosts_.place_of(comm_.rank()) == 0 ? 0 : -1, comm_.rank());
  if (!among) {
    (*inside)->release();
    return std::move(among).error();
  }
  local_ = core::Ref<core::Communicator>(*inside);
  leaders_ = core::Ref<core::Communicator>(*among);
  return {};
}

Status Hierarchy::run(const Call& call) {
  switch (call.what) {
    case Collective::barrier:
      return barrier();
    case Collective::bcast:
      return bcast(call);
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
  Outcome outcome;
  outcome.note(coll::run(on(nothing, Collective::barrier, *local_, 0)));
  if (leads()) outcome.note(coll::run(on(nothing, Collective::barrier, *leaders_, 0)));
  outcome.note(coll::run(on(nothing, Collective::barrier, *local_, 0)));
  return outcome.take();
}

/// The host of the root first, then the leaders, then the others; each piece by itself.
Status Hierarchy::bcast(const Call& call) {
  const int home = hosts_.host_of(call.root), place = hosts_.place_of(call.root);
  const bool at_home = hosts_.host_of(comm_.rank()) == home;
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call, call.recv.count, static_cast<int64_t>(element));
  UnderWay messages(comm_.instance);
  Outcome outcome;
  const auto inside = [&](int64_t i, int root) {
    Call part = on(call, Collective::bcast, *local_, root);
    narrow(part, pieces.first(i), pieces.size(i), element);
    return coll::run(part);
  };
  const auto between = [&](int64_t i) {
    Call part = on(call, Collective::bcast, *leaders_, home);
    narrow(part, pieces.first(i), pieces.size(i), element);
    return messages.start(part);
  };
  if (leads() && !at_home) outcome.note(between(0));
  for (int64_t i = 0; i < pieces.number(); ++i) {
    if (at_home) {
      outcome.note(inside(i, place));
      outcome.note(messages.wait());
      if (leads()) outcome.note(between(i));
      continue;
    }
    outcome.note(messages.wait());
    if (leads() && i + 1 < pieces.number()) outcome.note(between(i + 1));
    outcome.note(inside(i, 0));
  }
  outcome.note(messages.wait());
  return outcome.take();
}

/// Each host's sum to its leader, the leaders' to each other, the result to all; a piece's messages run while
/// the next one is summed.
Status Hierarchy::allreduce(const Call& call) {
  const auto element = static_cast<uint64_t>(call.recv.type->size());
  const Pieces pieces(call, call.recv.count, static_cast<int64_t>(element));
  UnderWay messages(comm_.instance);
  Outcome outcome;
  const auto part_of = [&](Collective what, core::Communicator& comm, int64_t i) {
    Call part = on(call, what, comm, 0);
    narrow(part, pieces.first(i), pieces.size(i), element);
    return part;
  };
  const auto gather = [&](int64_t i) -> Status {
    Call part = part_of(Collective::reduce, *local_, i);
    part.in_place = call.in_place && leads();
    if (!leads()) only_sends(part);
    return coll::run(part);
  };
  const auto exchange = [&](int64_t i) -> Status {
    Call part = part_of(Collective::allreduce, *leaders_, i);
    part.in_place = true;
    part.send = part.recv;
    return messages.start(part);
  };
  for (int64_t i = 0; i <= pieces.number(); ++i) {
    if (i < pieces.number()) outcome.note(gather(i));
    outcome.note(messages.wait());
    if (leads() && i < pieces.number()) outcome.note(exchange(i));
    if (i > 0) outcome.note(coll::run(part_of(Collective::bcast, *local_, i - 1)));
  }
  return outcome.take();
}

/// To the leaders, to the leader of the root's host, to the root.
Status Hierarchy::reduce(const Call& call) {
  const int home = hosts_.host_of(call.root), place = hosts_.place_of(call.root);
  const bool rooted = call.rank == call.root, at_home = hosts_.host_of(comm_.rank()) == home;
  Like room;
  Outcome outcome;
  Call inside = on(call, Collective::reduce, *local_, 0);
  narrow(inside, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
  inside.in_place = rooted && leads() && call.in_place;
  if (leads() && !rooted) {
    WEFT_TRY(room.make(call.send));  // or the result would have no place
    inside.recv = room.operand();
  }
  if (!leads()) only_sends(inside);
  outcome.note(coll::run(inside));
  if (leads()) {
    Call between = on(inside, Collective::reduce, *leaders_, home);
    narrow(between, 0, call.send.count, static_cast<uint64_t>(call.send.type->size()));
    between.send = inside.recv;
    between.in_place = at_home;
    if (!at_home) only_sends(between);
    outcome.note(coll::run(between));
  }
  if (!at_home || place == 0) return outcome.take();
  Call last = on(call, Collective::bcast, *local_, place);
  const int tag = local_->next_collective_tag();
  if (!rooted && !leads()) return outcome.take();
  if (leads()) last.send = inside.recv;
  Schedule schedule(last, tag, relay);
  outcome.note(schedule.begin());
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
  Outcome outcome;
  inside.bytes = call.bytes;
  inside.recv.address = block_at(hosts_.leaders[self]);
  inside.recv.blocks = local_->size();
  inside.in_place = call.in_place && leads();
  if (call.in_place && !leads()) {
    inside.send = call.recv;
    inside.send.address = block_at(comm_.rank());
  }
  outcome.note(coll::run(inside));
  if (leads()) {
    std::vector<int64_t> counts, places;
    for (int host = 0; host < hosts_.count(); ++host) {
      counts.push_back(static_cast<int64_t>(hosts_.at(host).size()) * call.recv.count);
      places.push_back(hosts_.leaders[static_cast<size_t>(host)] * call.recv.count);
    }
    Call between = on(call, Collective::allgatherv, *leaders_, 0);
    between.in_place = true;
    between.recv.counts = {counts.data(), true};
    between.recv.displacements = {places.data(), true};
    between.recv.blocks = static_cast<int>(counts.size());
    between.bytes = call.bytes * static_cast<uint64_t>(comm_.size());
    outcome.note(coll::run(between));
  }
  Call last = on(call, Collective::bcast, *local_, 0);
  narrow(last, 0, call.recv.count * comm_.size(), static_cast<uint64_t>(call.recv.type->size()));
  outcome.note(coll::run(last));
  return outcome.take();
}

}  // namespace weft::coll
