// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "coll/gpu/direct.hpp"

namespace weft::coll::gpu {
namespace {

/// As the others need to know it: GPU memory that kernels of this rank cannot work on is none.
Side usable(const Call& call, Domain& domain, device::Memory& memory) {
  if (call.failed != nullptr) return Side::other;
  if (!suits(call)) return call.send.on_device() || call.recv.on_device() ? Side::other : Side::host;
  const Place place = place_of(call);
  memory = place.memory;
  if (place.side != Side::device) return place.side;
  if (domain.state() == Domain::State::refused ||
      (domain.state() == Domain::State::open && !domain.reaches(memory)))
    return Side::other;
  const uint64_t aside = bytes_aside(call);
  if (aside != 0 && (domain.busy() || !domain.reserve(memory, aside))) return Side::other;
  return Side::device;
}

uint64_t number_at(const std::byte* statement, size_t offset, int i) {
  uint64_t number;
  std::memcpy(&number, statement + offset + static_cast<size_t>(i) * sizeof number, sizeof number);
  return number;
}

}  // namespace

Error Agreement::mismatch(const Call& call) const {
  return Error(Errc::truncate, std::string(name(call.what)) + ": rank " + std::to_string(from) + " gives " +
                                   std::to_string(sent) + " bytes where rank " + std::to_string(to) +
                                   " awaits " + std::to_string(awaited) +
                                   ": make counts and types of all ranks agree");
}

Statement statement_of(const Call& call, Domain& domain, device::Memory& memory) {
  Statement own;
  own.bytes = call.bytes;
  own.state = domain.state();
  own.side = usable(call, domain, memory);
  if (own.side != Side::device && own.side != Side::nothing) return own;
  if (suits(call) && !regular(call)) own.amounts = amounts_of(call);
  if (own.side == Side::device) own.largest = largest_message(call, own.amounts);
  own.awake = domain.awake() ? 1 : 0;
  return own;
}

void Judge::hear(int rank, const std::byte* statement) {
  Statement said;
  std::memcpy(static_cast<void*>(&said), statement, offsetof(Statement, amounts));
  if (const auto at = static_cast<size_t>(rank); at < said_.size())
    said_[at] = statement;  // else not suits()
  const bool nothing = said.side == Side::nothing;
  host_ = host_ && (nothing || said.side == Side::host);
  unopened_ = unopened_ && said.state == Domain::State::unknown;
  open_ = open_ && said.state == Domain::State::open;
  kernels_ = kernels_ && ((nothing && said.state == Domain::State::open) || said.side == Side::device);
  some_ = some_ || said.side == Side::device;
  idle_ = idle_ && said.busy == 0;
  awake_ = awake_ && said.awake != 0;
  largest_ = std::max(largest_, said.largest);
  places_ &= said.places;
}

/// What each sends is what the other awaits.
bool Judge::matches(Agreement& result) const {
  const auto differ = [&](int from, int to, uint64_t sent, uint64_t awaited) {
    if (sent == awaited) return false;
    result.from = from;
    result.to = to;
    result.sent = sent;
    result.awaited = awaited;
    return true;
  };
  const auto ranks = static_cast<int>(call_.size);
  if (regular(call_)) {
    for (int rank = 1; rank < ranks; ++rank)
      if (differ(0, rank, number_at(said_[0], offsetof(Statement, bytes), 0),
                 number_at(said_[static_cast<size_t>(rank)], offsetof(Statement, bytes), 0)))
        return false;
    return true;
  }
  constexpr size_t kSent = offsetof(Statement, amounts) + offsetof(Amounts, sent),
                   kAwaited = offsetof(Statement, amounts) + offsetof(Amounts, awaited);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (differ(from, to, number_at(said_[static_cast<size_t>(from)], kSent, to),
                 number_at(said_[static_cast<size_t>(to)], kAwaited, from)))
        return false;
  return true;
}

Agreement Judge::verdict() const {
  Agreement result;
  result.largest = largest_;
  result.places = places_;
  result.idle = idle_;
  result.awake = awake_;
  const bool free = idle_ ? unopened_ || open_ : later_ && open_;
  if (host_)
    result.way = Way::host;
  else if (kernels_ && some_ && free && (pays(call_, largest_) || (!later_ && wants_direct(call_, largest_))))
    result.way = matches(result) ? Way::kernels : Way::mismatch;
  return result;
}

Agreement agree(const Call& call, shared::Channel& channel, Domain& domain, const Besides& besides) {
  device::Memory memory;
  Statement own = statement_of(call, domain, memory);
  own.busy = besides.busy;
  own.places = besides.places;
  const size_t size = Statement::size(call);
  const uint32_t step = channel.begin(1);
  std::memcpy(channel.claim(step, size), &own, size);
  channel.show(step, size);
  domain.plan_ahead(call, besides.later || own.side != Side::device ? 0 : own.largest, own.awake != 0);
  Judge judge(call, besides.later);
  for (int rank = 0; rank < call.size; ++rank) judge.hear(rank, channel.await(rank, step).data);
  channel.met(step);
  Agreement result = judge.verdict();
  result.memory = memory;
  return result;
}

}  // namespace weft::coll::gpu
