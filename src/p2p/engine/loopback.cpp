// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/loopback.hpp"

#include <cstring>

#include "base/trace.hpp"
#include "p2p/engine/choice.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/events.hpp"
#include "p2p/message/type_check.hpp"

namespace weft::p2p {
namespace {

constexpr uint64_t kMaxStoredBytes = 16 << 10;  // of an unexpected message; larger ones stay at the sender

}  // namespace

void Loopback::send(Transfer& t) {
  const trace::Range range("p2p.self");
  constexpr uint64_t kMessagesPerPoll = 64;
  const uint32_t self_id = engine_.instance.self;
  Peer& self = engine_.peers[self_id];
  // Nothing else lets a program that only sends to itself notice a revocation.
  if (++self.sent % kMessagesPerPoll == 0) [[unlikely]] {
    engine_.instance.progress();
    if (t.comm->revoked) return engine_.requests.complete(t, core::FailureDetector::revoked_error(*t.comm));
  }
  self.sent_bytes += t.bytes;
  const Header h = engine_.outgoing.header(t, Type::ready_to_send, 0);
  t.enter(Transfer::State::rts_sent);
  if (Transfer* const receiver = engine_.delivery.match_posted({h.context, h.source, h.tag})) {
    engine_.delivery.matched(*receiver, self_id, h.source, h.tag, t.bytes);
    compare_types(*receiver, h.signature);
    report_match(h, t.bytes, false);
    return copy(*receiver, t);
  }
  if (t.memory.kind == device::MemoryKind::host && t.mode != SendMode::synchronous &&
      t.bytes <= eager_limit_of(UINT64_MAX)) {
    std::byte packed[kMaxStoredBytes];
    WEFT_ASSERT(t.bytes <= sizeof packed);
    if (t.bytes != 0) t.pack(0, packed, t.bytes);
    engine_.delivery.store(self_id, engine_.outgoing.header(t, Type::eager, t.bytes), packed, t.bytes);
    return engine_.requests.complete(t);
  }
  ReadyToSend rts{};
  static_cast<Header&>(rts) = h;
  rts.sender = engine_.requests.enlist(t);
  rts.bytes = t.bytes;
  UnexpectedMessage& kept =
      engine_.delivery.store(self_id, rts, reinterpret_cast<const std::byte*>(&rts), sizeof rts);
  kept.sender = rts.sender;
  kept.completion.bytes = t.bytes;
}

void Loopback::copy(Transfer& t, Transfer& sender) {
  if (sender.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    engine_.requests.complete(sender);
    return engine_.requests.complete(t, truncation_error(t));
  }
  if (device_side(t) || device_side(sender)) return engine_.copies.copy_inside(t, sender);
  if (t.contiguous && sender.contiguous) {
    if (sender.bytes != 0) std::memmove(t.address, sender.address, sender.bytes);
  } else {
    datatype::copy(sender.address, sender.count, *sender.type, t.address, t.count, *t.type);
  }
  engine_.requests.complete(sender);
  engine_.requests.complete(t);
}

}  // namespace weft::p2p
