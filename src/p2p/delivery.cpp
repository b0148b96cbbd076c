// SPDX-License-Identifier: BSD-3-Clause
// Incoming messages: matching, the unexpected queue, dispatch by message type.
#include <cstring>
#include <new>

#include "p2p/engine.hpp"

namespace weft::p2p {

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
  t.state = Transfer::State::matched;
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

void Engine::acknowledge(uint32_t to, uint64_t sender) {
  Reply reply{};
  reply.type = Type::acknowledge;
  reply.sender = sender;
  post_control(to, &reply, sizeof reply);
}

// Matches an eager message, or stores it as unexpected.
inline void Engine::on_eager(uint32_t source, const Header& header, const std::byte* message) {
  const bool sync = header.type == Type::eager_sync;
  const std::byte* payload = message + (sync ? sizeof(EagerSync) : sizeof(Header));
  const uint64_t sender = sync ? reinterpret_cast<const EagerSync*>(message)->sender : 0;
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

void Engine::deliver(uint32_t source, const std::byte* message, size_t size) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  if (header.type == Type::eager) [[likely]]
    return on_eager(source, header, message);
  switch (header.type) {
    case Type::eager:
    case Type::eager_sync:
      return on_eager(source, header, message);
    case Type::ready_to_send:
      return on_rts(source, *reinterpret_cast<const ReadyToSend*>(message), size);
    case Type::clear_to_send:
      return on_clear_to_send(*reinterpret_cast<const ClearToSend*>(message));
    case Type::data:
      return on_data(*reinterpret_cast<const Data*>(message), message + sizeof(Data));
    case Type::finish:
      return on_finish(reinterpret_cast<const Reply*>(message)->sender,
                       (header.flags & Reply::kConsumed) != 0);
    case Type::acknowledge:
      return on_finish(reinterpret_cast<const Reply*>(message)->sender);
    case Type::finish_many:
      for (size_t i = 0; i < header.length; ++i)
        on_finish(reinterpret_cast<const Finished*>(message)->senders[i]);
      return;
    case Type::cancel:
      return on_cancel(source, *reinterpret_cast<const Reply*>(message));
    case Type::cancel_reply:
      if (header.flags != 0) on_cancelled(reinterpret_cast<const Reply*>(message)->sender);
      return;
    case Type::credit:
      peers_[source].eager_credited = reinterpret_cast<const Credit*>(message)->bytes;
      return;
    case Type::region:
      return add_region(source, *reinterpret_cast<const ReadyToSend*>(message));
    case Type::chunk_ready:
      return on_chunk_ready(source, *reinterpret_cast<const BounceChunk*>(message));
    case Type::chunk_done:
      return on_chunk_done(*reinterpret_cast<const BounceChunk*>(message));
    case Type::no_descriptors:
      return exporter().use_mailbox(source, header.context);
    case Type::drop_mapping:
      return on_drop(source, *reinterpret_cast<const DropMapping*>(message));
    case Type::gdr_check_request:
      return on_gdr_check_request(source, *reinterpret_cast<const GdrCheckMessage*>(message));
    case Type::gdr_check_reply:
      return on_gdr_check_reply(source, *reinterpret_cast<const GdrCheckMessage*>(message));
    case Type::gdr_check_done:
      return on_gdr_check_done(*reinterpret_cast<const GdrCheckMessage*>(message));
  }
}

}  // namespace weft::p2p
