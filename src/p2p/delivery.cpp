// SPDX-License-Identifier: BSD-3-Clause
// Incoming messages: matching, the unexpected queue, dispatch by message type.
#include <cstring>
#include <new>

#include "base/counters.hpp"
#include "p2p/engine.hpp"
#include "p2p/validate.hpp"

namespace weft::p2p {
namespace {

counters::Counter malformed_messages("p2p.malformed_messages", counters::Unit::events,
                                     "Messages dropped because their size, layout or content is invalid, or "
                                     "their request does not await them");

}  // namespace

void Engine::receive_stored(Transfer& t, match::MatchEntry& entry) {
  auto& message = static_cast<UnexpectedMessage&>(entry);
  unexpected_.remove(message);
  if (!device_side(t)) [[likely]]
    return receive_message(t, message);
  ++burst_.posted;
  keep_running();
  posting_ = true;
  receive_message(t, message);
  posting_ = false;
}

// Starts copies of messages that have arrived, while the application posts the rest of a window.
void Engine::progress_while_posting() {
  ++burst_.posted;
  posting_ = true;
  instance.progress();
  posting_ = false;
}

void Engine::receive_message(Transfer& t, UnexpectedMessage& message) {
  const uint32_t source = message.peer;
  matched(t, source, message.completion.source, message.completion.tag, message.completion.bytes);
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

// Matches an eager message, or stores it as unexpected.
inline void Engine::on_eager(uint32_t source, const Header& header, const std::byte* message) {
  const bool sync = header.type == Type::eager_sync;
  const std::byte* payload = message + (sync ? sizeof(EagerSync) : sizeof(Header));
  const core::RequestId sender =
      sync ? reinterpret_cast<const EagerSync*>(message)->sender : core::kNoRequest;
  ++peers_[source].arrived;
  Transfer* const receiver = match_posted({header.context, header.source, header.tag});
  if (receiver == nullptr) {
    store(source, header, payload, header.length).sender = sender;
    return;
  }
  Transfer& t = *receiver;
  matched(t, source, header.source, header.tag, header.length);
  if (sync) [[unlikely]]
    acknowledge(source, sender);
  consumed(source, header.length);
  receive_eager(t, payload, header.length);
}

void Engine::on_rts(uint32_t source, const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ReadyToSend::kRegion) != 0) [[unlikely]]
    add_region(source, rts);
  ++peers_[source].arrived;
  if (Transfer* const receiver = match_posted({rts.context, rts.source, rts.tag})) {
    Transfer& t = *receiver;
    matched(t, source, rts.source, rts.tag, rts.bytes);
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

void Engine::deliver(uint32_t source, const std::byte* message, size_t size) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  if (size >= sizeof(Header) && header.type == Type::eager && size - sizeof(Header) >= header.length)
      [[likely]]
    return on_eager(source, header, message);
  if (!well_formed(message, size, peers_[source].remote)) [[unlikely]]
    return drop_malformed();
  deliver_control(source, message, size);
}

void Engine::deliver_control(uint32_t source, const std::byte* message, size_t size) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  switch (header.type) {
    case Type::eager:
    case Type::eager_sync:
      return on_eager(source, header, message);
    case Type::ready_to_send:
      return on_rts(source, *reinterpret_cast<const ReadyToSend*>(message), size);
    case Type::clear_to_send:
      return on_clear_to_send(source, *reinterpret_cast<const ClearToSend*>(message));
    case Type::data:
      return on_data(source, *reinterpret_cast<const Data*>(message), message + sizeof(Data));
    case Type::finish:
      return on_finish(source, reinterpret_cast<const Reply*>(message)->sender,
                       (header.flags & Reply::kConsumed) != 0);
    case Type::acknowledge:
      return on_finish(source, reinterpret_cast<const Reply*>(message)->sender);
    case Type::finish_many:
      for (size_t i = 0; i < header.length; ++i)
        on_finish(source, reinterpret_cast<const Finished*>(message)->senders[i]);
      return;
    case Type::cancel:
      return on_cancel(source, *reinterpret_cast<const Reply*>(message));
    case Type::cancel_reply:
      if (header.flags != 0) on_cancelled(source, reinterpret_cast<const Reply*>(message)->sender);
      return;
    case Type::credit:
      return on_credit(source, *reinterpret_cast<const Credit*>(message));
    case Type::region:
      return add_region(source, *reinterpret_cast<const ReadyToSend*>(message));
    case Type::chunk_ready:
      return on_chunk_ready(source, *reinterpret_cast<const BounceChunk*>(message));
    case Type::chunk_done:
      return on_chunk_done(source, *reinterpret_cast<const BounceChunk*>(message));
    case Type::no_descriptors:
      return exporter().use_mailbox(source, header.context);
    case Type::drop_mapping:
      return on_drop(source, *reinterpret_cast<const DropMapping*>(message));
    case Type::gdr_check_request:
      return on_gdr_check_request(source, *reinterpret_cast<const GdrCheckMessage*>(message));
    case Type::gdr_check_reply:
      return on_gdr_check_reply(source, *reinterpret_cast<const GdrCheckMessage*>(message));
    case Type::gdr_check_done:
      return on_gdr_check_done(source, *reinterpret_cast<const GdrCheckMessage*>(message));
  }
}

}  // namespace weft::p2p
