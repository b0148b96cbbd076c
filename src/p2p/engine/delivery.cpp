// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/delivery.hpp"

#include <cstring>
#include <new>
#include <vector>

#include "base/counters.hpp"
#include "core/context_ids.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/events.hpp"
#include "p2p/message/type_check.hpp"

namespace weft::p2p {
namespace {

counters::Counter revoked_messages("p2p.revoked_messages", counters::Unit::events,
                                   "Messages dropped because their communicator is revoked");
counters::Counter unexpected_matches("p2p.unexpected_matches", counters::Unit::events,
                                     "Receives whose message had arrived before");

}  // namespace

void Delivery::matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes) {
  WEFT_ASSERT(t.kind == core::Request::Kind::receive && !t.queued && t.advertised == 0);  // M1
  t.enter(Transfer::State::matched);
  t.peer = source;
  t.completion.source = rank;
  t.completion.tag = tag;
  t.completion.bytes = bytes;
  t.expected = bytes;
}

bool Delivery::withdraw(Transfer& t) {
  if (t.advertised != 0 && !paths_.retract(t)) return false;
  posted_.remove(t);
  return true;
}

void Delivery::cancel(Transfer& t) {
  if (t.state != Transfer::State::posted || !withdraw(t)) return;
  t.completion.cancelled = true;
  requests_.complete(t);
}

void Delivery::receive_message(Transfer& t, UnexpectedMessage& message) {
  const uint32_t source = message.peer;
  unexpected_matches.add();
  matched(t, source, message.completion.source, message.completion.tag, message.completion.bytes);
  Header arrived{message.type};
  arrived.context = message.key().context;
  arrived.source = message.completion.source;
  arrived.tag = message.completion.tag;
  report_match(arrived, message.completion.bytes, true);
  compare_types(t, message.signature);
  if (message.type == Type::ready_to_send) {
    alignas(8) std::byte header[kMaxControl];
    std::memcpy(header, message.data(), message.size);
    dispose(message);
    return paths_.start_rendezvous(t, source, *reinterpret_cast<const ReadyToSend*>(header));
  }
  if (message.type == Type::eager_sync) outgoing_.acknowledge(source, message.sender);
  consumed(source, message.size);
  receive_eager(t, message.data(), message.size);
  dispose(message);
}

void Delivery::receive_eager_slow(Transfer& t, const std::byte* payload, size_t size) {
  if (size > t.bytes) [[unlikely]] {
    t.completion.bytes = t.bytes;
    return requests_.complete(t, truncation_error(t));
  }
  if (device_side(t)) [[unlikely]]
    return paths_.upload_eager(t, payload, size);
  if (size != 0) t.unpack(0, payload, size);
  requests_.complete(t);
}

void Delivery::discard(UnexpectedMessage& message) {
  if (message.type == Type::eager_sync) outgoing_.acknowledge(message.peer, message.sender);
  if (message.type == Type::ready_to_send)
    paths_.refuse(message.peer, *reinterpret_cast<const ReadyToSend*>(message.data()));
  else
    consumed(message.peer, message.size);
  dispose(message);
}

bool Delivery::remove_cancelled(uint32_t source, const Reply& request) {
  UnexpectedMessage* found = nullptr;
  unexpected_.for_each(request.context, [&](match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    if (message.peer == source && message.sender == request.sender) found = &message;
    return found == nullptr;
  });
  if (found == nullptr) return false;
  unexpected_.remove(*found);
  if (found->type == Type::eager_sync) consumed(source, found->size);
  if (found->type == Type::ready_to_send)
    outgoing_.decline(source, *reinterpret_cast<const ReadyToSend*>(found->data()));
  dispose(*found);
  return true;
}

void Delivery::forget(uint32_t peer) {
  std::vector<UnexpectedMessage*> unmatched;
  unexpected_.for_all([&](match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    if (message.peer == peer) unmatched.push_back(&message);
  });
  for (UnexpectedMessage* message : unmatched) {
    unexpected_.remove(*message);
    dispose(*message);
  }
}

void Delivery::revoke(const core::Communicator& comm) {
  (void)core::remember_context(revoked_, comm.id);
  std::vector<UnexpectedMessage*> messages;
  for (const auto channel : {core::Channel::user, core::Channel::collective, core::Channel::partitioned})
    unexpected_.for_each(comm.context(channel), [&](match::MatchEntry& entry) {
      auto& message = static_cast<UnexpectedMessage&>(entry);
      if (message.type == Type::eager) messages.push_back(&message);
      return true;
    });
  for (UnexpectedMessage* message : messages) {
    extract(*message);
    discard(*message);
  }
}

UnexpectedMessage& Delivery::store(uint32_t source, const Header& header, const std::byte* data,
                                   size_t size) {
  UnexpectedMessage* const made = UnexpectedMessage::slab().create();
  if (made == nullptr) throw std::bad_alloc();  // an arrived message cannot be refused
  UnexpectedMessage& message = *made;
  message.peer = source;
  message.type = header.type;
  message.signature = header.signature;
  message.completion = {header.source, header.tag, header.length, false};
  message.size = size;
  std::byte* storage = message.inlined;
  if (size > sizeof message.inlined) {
    message.heap.reset(new std::byte[size]);
    storage = message.heap.get();
  }
  std::memcpy(storage, data, size);
  unexpected_.add(message, {header.context, header.source, header.tag});
  return message;
}

void Delivery::dispose(UnexpectedMessage& message) {
  if (message.comm != nullptr) message.comm->release();
  UnexpectedMessage::slab().destroy(&message);
}

/// Returns credit in steps of half the limit, to save messages.
inline void Delivery::consumed(uint32_t from, uint64_t bytes) {
  if (from == instance_.self) return;
  Peer& peer = peers_[from];
  WEFT_ASSERT(peer.reported <= peer.consumed);  // C2
  peer.consumed += bytes + kEntryChargeBytes;
  if (peer.consumed - peer.reported >= credit / 2) [[unlikely]]
    return_credit(from, peer);
}

void Delivery::return_credit(uint32_t to, Peer& peer) {
  Credit message{};
  message.type = Type::credit;
  message.bytes = peer.consumed;
  peer.reported = peer.consumed;
  outgoing_.post_control(to, &message, sizeof message);
}

inline void Delivery::deliver_eager(uint32_t source, const Header& header, const std::byte* payload,
                                    core::RequestId sender) {
  const bool sync = header.type == Type::eager_sync;
  Peer& peer = peers_[source];
  ++peer.arrived;
  peer.arrived_bytes += header.length;
  Transfer* const receiver = match_posted({header.context, header.source, header.tag});
  if (receiver == nullptr) {
    // Its sender did not know of the revocation. A message that awaits an answer is cancelled by its sender.
    const core::ContextId comm = header.context & ~(core::kContextStep - 1);
    if (!revoked_.empty() && !sync && revoked_.contains(comm)) [[unlikely]]
      return revoked_messages.add(), consumed(source, header.length);
    store(source, header, payload, header.length).sender = sender;
    return;
  }
  Transfer& t = *receiver;
  matched(t, source, header.source, header.tag, header.length);
  compare_types(t, header.signature);
  if (sync) [[unlikely]]
    outgoing_.acknowledge(source, sender);
  consumed(source, header.length);
  receive_eager(t, payload, header.length);
}

void Delivery::on_observed_eager(uint32_t source, const Header& header, const std::byte* payload,
                                 core::RequestId sender) {
  const size_t stored = unexpected_.size();
  deliver_eager(source, header, payload, sender);
  if (unexpected_.size() == stored) report_match(header, header.length, false);
}

void Delivery::on_rts(uint32_t source, const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ReadyToSend::kRegion) != 0) [[unlikely]]
    paths_.store_region(source, rts);
  Peer& peer = peers_[source];
  ++peer.arrived;
  peer.arrived_bytes += rts.bytes;
  if (Transfer* const receiver = match_posted({rts.context, rts.source, rts.tag})) {
    Transfer& t = *receiver;
    matched(t, source, rts.source, rts.tag, rts.bytes);
    report_match(rts, rts.bytes, false);
    compare_types(t, rts.signature);
    return paths_.start_rendezvous(t, source, rts);
  }
  UnexpectedMessage& kept = store(source, rts, reinterpret_cast<const std::byte*>(&rts), size);
  kept.sender = rts.sender;
  kept.completion.bytes = rts.bytes;
}

// Small messages have no branch for tools: they get another handler while a tool waits for the event.
void Delivery::register_eager_handler() {
  constexpr auto kEagerId = static_cast<transport::am::HandlerId>(Type::eager);
  if (instance_.handlers.registered(kEagerId)) instance_.handlers.remove(kEagerId);
  if (message_matched.wanted())
    instance_.handlers.add<EagerHeader>(
        kEagerId, *this, [](Delivery& delivery, uint32_t source, const EagerHeader& m, size_t size) {
          delivery.on_observed_eager(source, m.expanded(size), m.payload(size), core::kNoRequest);
        });
  else
    instance_.handlers.add<EagerHeader>(
        kEagerId, *this, [](Delivery& delivery, uint32_t source, const EagerHeader& m, size_t size) {
          delivery.deliver_eager(source, m.expanded(size), m.payload(size), core::kNoRequest);
        });
}

}  // namespace weft::p2p
