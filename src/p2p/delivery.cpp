// SPDX-License-Identifier: BSD-3-Clause
// Incoming messages: matching, the unexpected queue, registration of handlers.
#include <cstring>
#include <new>

#include "base/counters.hpp"
#include "p2p/engine.hpp"
#include "p2p/events.hpp"
#include "p2p/protocol/states.hpp"
#include "p2p/type_check.hpp"
#include "p2p/validate.hpp"

namespace weft::p2p {
namespace {

counters::Counter malformed_messages("p2p.malformed_messages", counters::Unit::events,
                                     "Messages dropped because their size, layout or content is invalid, or "
                                     "their request does not await them");

counters::Counter revoked_messages("p2p.revoked_messages", counters::Unit::events,
                                   "Messages dropped because their communicator is revoked");
counters::Counter unexpected_matches("p2p.unexpected_matches", counters::Unit::events,
                                     "Receives whose message had arrived before");

template <class H>
const std::byte* payload_after(const H& header) {
  return reinterpret_cast<const std::byte*>(&header + 1);
}

std::vector<const char*> channels() { return {"user", "collective", "partitioned"}; }
std::vector<const char*> orders() { return {"receive_first", "message_first"}; }

}  // namespace

events::Event message_matched("p2p.message_matched", "A message is matched with its receive",
                              {{"source", events::Type::number},
                               {"tag", events::Type::number},
                               {"bytes", events::Type::amount},
                               {"channel", events::Type::choice, channels},
                               {"order", events::Type::choice, orders}},
                              events::Binding::communicator);

void Engine::receive_stored(Transfer& t, match::MatchEntry& entry) {
  auto& message = static_cast<UnexpectedMessage&>(entry);
  unexpected_.remove(message);
  if (!device_side(t)) [[likely]]
    return receive_message(t, message);
  keep_running();
  batcher_.begin_post();
  receive_message(t, message);
  batcher_.end_post();
}

void Engine::device_posted(Transfer& t) {
  put().advertise(t);
  progress_while_posting();
}

bool Engine::retract(Transfer& t) {
  return t.advertised == Transfer::kInterrupted ? resume(t) : put().retract(t);
}

bool Engine::retract_matched(Transfer& t) {
  return t.advertised == Transfer::kInterrupted ? resume(t) : put().retract_matched(t);
}

void Engine::record_sent(Peer& peer, const match::Key& key) { PutProtocol::record_sent(peer, key); }

// Starts copies of messages that have arrived, while the application posts the rest of a window.
void Engine::progress_while_posting() {
  batcher_.begin_post();
  instance.progress();
  batcher_.end_post();
}

void Engine::receive_message(Transfer& t, UnexpectedMessage& message) {
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
    return start_rendezvous(t, source, *reinterpret_cast<const ReadyToSend*>(header));
  }
  if (message.type == Type::eager_sync) acknowledge(source, message.sender);
  consumed(source, message.size);
  receive_eager(t, message.data(), message.size);
  dispose(message);
}

UnexpectedMessage* Engine::find(const match::Key& wanted) const {
  return static_cast<UnexpectedMessage*>(unexpected_.find(wanted));
}

void Engine::discard(UnexpectedMessage& message) {
  if (message.type == Type::eager_sync) acknowledge(message.peer, message.sender);
  if (message.type == Type::ready_to_send) {
    decline(message.peer, *reinterpret_cast<const ReadyToSend*>(message.data()));
    finish_sender(message.peer, message.sender);
  } else {
    consumed(message.peer, message.size);
  }
  dispose(message);
}

void Engine::matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes) {
  WEFT_ASSERT(t.kind == core::Request::Kind::receive && !t.queued);
  t.enter(Transfer::State::matched);
  t.peer = source;
  t.completion.source = rank;
  t.completion.tag = tag;
  t.completion.bytes = bytes;
  t.expected = bytes;
}

UnexpectedMessage& Engine::store(uint32_t source, const Header& header, const std::byte* data, size_t size) {
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

void Engine::dispose(UnexpectedMessage& message) {
  if (message.comm != nullptr) message.comm->release();
  UnexpectedMessage::slab().destroy(&message);
}

void Engine::acknowledge(uint32_t to, core::RequestId sender) {
  Reply reply{};
  reply.type = Type::acknowledge;
  reply.sender = sender;
  post_control(to, &reply, sizeof reply);
}

// Matches an eager message, or stores it as unexpected. `sender`: of eager_sync.
inline void Engine::on_eager(uint32_t source, const Header& header, const std::byte* payload,
                             core::RequestId sender) {
  const bool sync = header.type == Type::eager_sync;
  Peer& peer = peers_[source];
  ++peer.arrived;
  peer.arrived_bytes += header.length;
  Transfer* const receiver = match_posted({header.context, header.source, header.tag});
  if (receiver == nullptr) {
    // Its sender did not know of the revocation. A message that awaits an answer is cancelled by its sender.
    const core::ContextId comm = header.context & ~(core::kContextStep - 1);
    if (!states_->revoked.empty() && !sync && states_->revoked.contains(comm)) [[unlikely]]
      return revoked_messages.add(), consumed(source, header.length);
    store(source, header, payload, header.length).sender = sender;
    return;
  }
  Transfer& t = *receiver;
  matched(t, source, header.source, header.tag, header.length);
  compare_types(t, header.signature);
  if (sync) [[unlikely]]
    acknowledge(source, sender);
  consumed(source, header.length);
  receive_eager(t, payload, header.length);
}

void Engine::on_rts(uint32_t source, const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ReadyToSend::kRegion) != 0) [[unlikely]]
    regions().add(source, rts);
  Peer& peer = peers_[source];
  ++peer.arrived;
  peer.arrived_bytes += rts.bytes;
  if (Transfer* const receiver = match_posted({rts.context, rts.source, rts.tag})) {
    Transfer& t = *receiver;
    matched(t, source, rts.source, rts.tag, rts.bytes);
    report_match(rts, rts.bytes, false);
    compare_types(t, rts.signature);
    return start_rendezvous(t, source, rts);
  }
  UnexpectedMessage& kept = store(source, rts, reinterpret_cast<const std::byte*>(&rts), size);
  kept.sender = rts.sender;
  kept.completion.bytes = rts.bytes;
}

void Engine::drop_malformed() { malformed_messages.add(); }

Transfer* Engine::find_transfer(core::RequestId id, uint32_t source, Transfer::State state) {
  core::Request* const request = requests_.find(id, source);
  if (request == nullptr) return nullptr;
  auto& t = static_cast<Transfer&>(*request);
  if (t.state == state) [[likely]]
    return &t;
  drop_malformed();
  return nullptr;
}

/// Registers the handler of a message type: handle(engine, source, header, size), called for well-formed
/// messages only.
template <class H, class F>
void Engine::on(Type type, F) {
  WEFT_ASSERT(sizeof(H) == header_size(type));
  instance.handlers.add<H>(static_cast<transport::am::HandlerId>(type), *this,
                           [](Engine& engine, uint32_t source, const H& header, size_t size) {
                             const auto* message = reinterpret_cast<const std::byte*>(&header);
                             if (!well_formed(message, size, engine.peers_[source].remote)) [[unlikely]]
                               return drop_malformed();
                             F{}(engine, source, header, size);
                           });
}

/// Delivers an eager message, and reports its match if a tool waits for it.
void Engine::on_observed_eager(uint32_t source, const Header& header, const std::byte* payload,
                               core::RequestId sender) {
  const size_t stored = unexpected_.size();
  on_eager(source, header, payload, sender);
  if (unexpected_.size() == stored) report_match(header, header.length, false);
}

// Small messages have no branch for tools: they get another handler while a tool waits for the event.
void Engine::register_eager_handler() {
  constexpr auto kEagerId = static_cast<transport::am::HandlerId>(Type::eager);
  if (instance.handlers.registered(kEagerId)) instance.handlers.remove(kEagerId);
  if (message_matched.wanted())
    instance.handlers.add<EagerHeader>(
        kEagerId, *this, [](Engine& e, uint32_t source, const EagerHeader& m, size_t size) {
          e.on_observed_eager(source, m.expanded(size), m.payload(size), core::kNoRequest);
        });
  else
    instance.handlers.add<EagerHeader>(
        kEagerId, *this, [](Engine& e, uint32_t source, const EagerHeader& m, size_t size) {
          e.on_eager(source, m.expanded(size), m.payload(size), core::kNoRequest);
        });
}

void Engine::register_handlers() {
  register_eager_handler();
  message_matched.set_hook([this] { register_eager_handler(); });
  on<EagerSync>(Type::eager_sync, [](Engine& e, uint32_t source, const EagerSync& m, size_t) {
    e.on_observed_eager(source, m, payload_after(m), m.sender);
  });
  on<Header>(Type::eager_typed, [](Engine& e, uint32_t source, const Header& m, size_t) {
    Header eager = m;
    eager.type = Type::eager;
    e.on_observed_eager(source, eager, payload_after(m), core::kNoRequest);
  });
  on<ReadyToSend>(Type::ready_to_send, [](Engine& e, uint32_t source, const ReadyToSend& m, size_t size) {
    e.on_rts(source, m, size);
  });
  on<ClearToSend>(Type::clear_to_send, [](Engine& e, uint32_t source, const ClearToSend& m, size_t) {
    e.on_clear_to_send(source, m);
  });
  on<Data>(Type::data,
           [](Engine& e, uint32_t source, const Data& m, size_t) { e.on_data(source, m, payload_after(m)); });
  on<Reply>(Type::finish, [](Engine& e, uint32_t source, const Reply& m, size_t) {
    e.on_finish(source, m.sender, (m.flags & Reply::kConsumed) != 0);
  });
  on<Reply>(Type::acknowledge,
            [](Engine& e, uint32_t source, const Reply& m, size_t) { e.on_finish(source, m.sender); });
  on<Header>(Type::finish_many, [](Engine& e, uint32_t source, const Header& m, size_t) {
    const auto* senders = reinterpret_cast<const core::RequestId*>(&m + 1);
    for (size_t i = 0; i < m.length; ++i) e.on_finish(source, senders[i]);
  });
  on<Reply>(Type::cancel, [](Engine& e, uint32_t source, const Reply& m, size_t) { e.on_cancel(source, m); });
  on<Reply>(Type::cancel_reply, [](Engine& e, uint32_t source, const Reply& m, size_t) {
    if (m.flags != 0) e.on_cancelled(source, m.sender);
  });
  on<Credit>(Type::credit,
             [](Engine& e, uint32_t source, const Credit& m, size_t) { e.on_credit(source, m); });
  on<ReadyToSend>(Type::region, [](Engine& e, uint32_t source, const ReadyToSend& m, size_t) {
    e.regions().add(source, m);
  });
  on<BounceChunk>(Type::chunk_ready, [](Engine& e, uint32_t source, const BounceChunk& m, size_t) {
    e.on_chunk_ready(source, m);
  });
  on<BounceChunk>(Type::chunk_done, [](Engine& e, uint32_t source, const BounceChunk& m, size_t) {
    e.on_chunk_done(source, m);
  });
  on<CopyOffer>(Type::copy_offer,
                [](Engine& e, uint32_t source, const CopyOffer& m, size_t) { e.on_copy_offer(source, m); });
  on<GdrCheckMessage>(Type::gdr_check_request, [](Engine& e, uint32_t source, const GdrCheckMessage& m,
                                                  size_t) { e.gpudirect().on_request(source, m); });
  on<GdrCheckMessage>(Type::gdr_check_reply, [](Engine& e, uint32_t source, const GdrCheckMessage& m,
                                                size_t) { e.gpudirect().on_reply(source, m); });
  on<GdrCheckMessage>(Type::gdr_check_done, [](Engine& e, uint32_t source, const GdrCheckMessage& m, size_t) {
    e.gpudirect().on_done(source, m);
  });
}

}  // namespace weft::p2p
