// SPDX-License-Identifier: BSD-3-Clause
// Messages out and in: room in the transport, the backlog when there is none, matching on arrival.
#include "p2p/engine.hpp"

#include <cstring>
#include <string>

#include "base/config.hpp"

namespace weft::p2p {
namespace {

config::Size credit{"p2p.credit", 1 << 20, 1 << 12, 1 << 30,
                    "Bytes of eager messages that one peer may have unreceived here; beyond, it announces."};
constexpr size_t kPollLimit = 64;      // messages a round from one queue
constexpr uint32_t kPostsPerLook = 8;  // while receives are posted: asking the GPU takes longer than posting
constexpr size_t kStagedSends = 4;  // from device memory, streaming at a time: each holds two pinned chunks
constexpr uint64_t kEntryCharge = 128;  // what an unexpected message costs beside its data

/// Whether a received message ends inside a number, so cannot be of the receive's type.
bool ends_inside(const Transfer& t) {
  return t.kind == core::Request::Kind::receive && t.completion.bytes < t.bytes &&
         datatype::elements(*t.type, static_cast<int64_t>(t.completion.bytes)) == datatype::kUndefined;
}

[[gnu::cold]] Error end_inside_error(const Transfer& t) {
  return Error(Errc::type, "the message has " + std::to_string(t.completion.bytes) +
                               " bytes and ends inside an element of the receive's datatype: make"
                               " the datatypes of both sides agree");
}

}  // namespace

Slab<Message>& Message::slab() {
  static auto& slab = *new Slab<Message>;
  return slab;
}

Engine::Engine(core::Instance& owner) : instance(owner), peers_(owner.size) {}

Engine::~Engine() {
  instance.shm = nullptr;
  close_device();
}

Result<std::unique_ptr<Engine>> Engine::create(core::Instance& instance) {
  return std::unique_ptr<Engine>(new Engine(instance));
}

Status Engine::connect() {
  if (connected()) return {};
  const auto& job = instance.exchange->job();
  if (job.local_size != job.size)
    return Error(Errc::unsupported, "the job spans several hosts (" + std::to_string(job.local_size) +
                                        " of " + std::to_string(job.size) +
                                        " ranks are here), but this build has no network transport: "
                                        "start all ranks on one host");
  auto shm = transport::shm::Shm::create(*instance.exchange);
  if (!shm) return std::move(shm).error();
  shm_ = std::move(*shm);
  instance.shm = shm_.get();
  instance.oversubscribed = instance.size > shm_->usable_cores();
  if (instance.oversubscribed) shm_->ring_bells();
  for (uint32_t peer = 0; peer < instance.size; ++peer)
    if (peer != instance.self) peers_[peer].transport = shm_.get();
  return {};
}

bool Engine::poll() {
  if (!posting_ && row_.now != 0) [[unlikely]]
    row_ = {0, row_.now};
  collecting_ = true;
  bool moved = shm_ != nullptr && shm_->poll(*this, kPollLimit) != 0;
  collecting_ = false;
  if (!gets_.empty() && copies_.empty()) submit_gets();
  if (!backlog_.empty()) [[unlikely]] {
    for (size_t i = 0; i < backlog_.size();) {
      moved |= flush(backlog_[i]);
      if (peers_[backlog_[i]].listed)
        ++i;
      else
        backlog_[i] = backlog_.back(), backlog_.pop_back();
    }
  }
  if (!streaming_.empty()) [[unlikely]]
    moved |= poll_streams();
  if (!copies_.empty()) {
    if (!posting_ || ++posts_ % kPostsPerLook == 0) moved |= poll_device();
    if (!gets_.empty()) submit_gets();
  }
  if (!fetches_.empty()) moved |= poll_fetches();
  if (!starved_.empty()) [[unlikely]]
    moved |= poll_starved();
  return moved;
}

bool Engine::poll_streams() {
  bool moved = false;
  size_t staged = 0;
  for (size_t i = 0; i < streaming_.size();) {
    Transfer* t = streaming_[i];
    if (t->staging && ++staged > kStagedSends) {
      ++i;
      continue;
    }
    moved |= t->scratch ? stream_scratch(*t) : t->staging ? stream_device(*t) : stream(*t);
    if (t->state == Transfer::State::streaming) {
      ++i;
      continue;
    }
    streaming_.erase(streaming_.begin() + static_cast<ptrdiff_t>(i));
    complete(*t);
  }
  return moved;
}

void Engine::drain() {
  core::wait_until(instance, [&] {
    return backlog_.empty() && streaming_.empty() && copies_.empty() && gets_.empty() && fetches_.empty();
  });
}

Header Engine::header(const Transfer& t, Type type, uint64_t length) const {
  Header h{type};
  h.length = static_cast<uint32_t>(length);
  h.context = t.context;
  h.source = t.comm->rank();
  h.tag = t.tag;
  return h;
}

void Engine::post_control(uint32_t to, const void* message, size_t size) {
  Peer& peer = peers_[to];
  if (!blocked(peer)) {
    if (std::byte* room = peer.transport->reserve(to, size)) {
      std::memcpy(room, message, size);
      peer.transport->commit(to, size);
      return;
    }
  }
  Pending& item = peer.pending.emplace_back(Pending{nullptr, size, {}});
  std::memcpy(item.control, message, size);
  if (!peer.listed) peer.listed = true, backlog_.push_back(to);
}

void Engine::enqueue(uint32_t to, Transfer& t) {
  Peer& peer = peers_[to];
  t.state = Transfer::State::queued;
  peer.pending.push_back(Pending{&t, 0, {}});
  if (!peer.listed) peer.listed = true, backlog_.push_back(to);
}

bool Engine::flush(uint32_t to) {
  Peer& peer = peers_[to];
  bool moved = false;
  while (!peer.pending.empty()) {
    Pending& item = peer.pending.front();
    if (item.transfer != nullptr) {
      if (!try_eager(*item.transfer)) return moved;
    } else {
      std::byte* room = peer.transport->reserve(to, item.size);
      if (room == nullptr) return moved;
      std::memcpy(room, item.control, item.size);
      peer.transport->commit(to, item.size);
    }
    peer.pending.pop_front();
    moved = true;
  }
  peer.listed = false;
  return moved;
}

void Engine::complete(Transfer& t) {
  if (ends_inside(t)) [[unlikely]]
    return complete(t, end_inside_error(t));
  t.state = Transfer::State::done;
  t.staging.reset();
  t.scratch.reset();
  t.finish();
}

void Engine::complete(Transfer& t, Error error) {
  t.state = Transfer::State::done;
  t.staging.reset();
  t.scratch.reset();
  t.finish(std::move(error));
}

// Credit: what we consumed of a peer's eager data is reported in large steps.
void Engine::consumed(uint32_t from, uint64_t bytes) {
  if (from == instance.self) return;
  Peer& peer = peers_[from];
  peer.consumed += bytes + kEntryCharge;
  if (peer.consumed - peer.reported < credit / 2) [[likely]]
    return;
  Credit message{};
  message.type = Type::credit;
  message.bytes = peer.consumed;
  peer.reported = peer.consumed;
  post_control(from, &message, sizeof message);
}

bool Engine::fits_eager(const Transfer& t, Peer& peer) const {
  return !device_side(t) && has_credit(t.peer, t.bytes, peer);
}

/// Small enough for the peer's transport, and within what it may keep of ours unreceived.
bool Engine::has_credit(uint32_t to, uint64_t bytes, Peer& peer) {
  if (bytes > peer.eager_max && bytes > eager_limit(to, peer)) [[unlikely]]
    return false;
  return peer.eager_sent + bytes + kEntryCharge - peer.eager_credited <= credit;
}

void Engine::charge(Peer& peer, uint64_t bytes) { peer.eager_sent += bytes + kEntryCharge; }

void Engine::send(Transfer& t) {
  if (t.peer == instance.self) return send_to_self(t);
  Peer& peer = peers_[t.peer];
  if (device_side(t) && send_through_bar(t, peer)) [[unlikely]]
    return;
  if (!fits_eager(t, peer)) return announce(t);
  charge(peer, t.bytes);
  if (blocked(peer) || !try_eager(t)) enqueue(t.peer, t);
}

void Engine::receive_stored(Transfer& t, match::Entry& entry) {
  auto& message = static_cast<Message&>(entry);
  unexpected_.remove(message);
  if (!device_side(t)) [[likely]]
    return receive_message(t, message);
  ++row_.now;
  posting_ = true;
  receive_message(t, message);
  posting_ = false;
}

// A copy engine can work while the application posts the rest of a window: let what has come start.
void Engine::look_while_posting() {
  ++row_.now;
  posting_ = true;
  instance.progress();
  posting_ = false;
}

void Engine::receive_message(Transfer& t, Message& message) {
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
  take_eager(t, message.data(), message.size);
  dispose(message);
}

Message* Engine::find(const match::Key& wanted) const {
  return static_cast<Message*>(unexpected_.find(wanted));
}

void Engine::discard(Message& message) {
  if (message.type == Type::eager_sync) acknowledge(message.peer, message.sender);
  if (message.type == Type::ready_to_send)
    finish_sender(message.peer, message.sender);
  else
    consumed(message.peer, message.size);
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

Message& Engine::store(uint32_t source, const Header& header, const std::byte* data, size_t size) {
  Message& message = *Message::slab().create();
  message.peer = source;
  message.type = header.type;
  message.completion = {header.source, header.tag, header.length, false};
  message.size = size;
  std::byte* room = message.inlined;
  if (size > sizeof message.inlined) {
    message.heap.reset(new std::byte[size]);
    room = message.heap.get();
  }
  std::memcpy(room, data, size);
  unexpected_.add(message, {header.context, header.source, header.tag});
  return message;
}

void Engine::dispose(Message& message) {
  if (message.comm != nullptr) message.comm->release();
  Message::slab().destroy(&message);
}

void Engine::acknowledge(uint32_t to, uint64_t sender) {
  Reply reply{};
  reply.type = Type::acknowledge;
  reply.sender = sender;
  post_control(to, &reply, sizeof reply);
}

// Matched, or kept.
inline void Engine::eager_arrived(uint32_t source, const Header& header, const std::byte* message) {
  const bool sync = header.type == Type::eager_sync;
  const std::byte* payload = message + (sync ? sizeof(EagerSync) : sizeof(Header));
  const uint64_t sender = sync ? reinterpret_cast<const EagerSync*>(message)->sender : 0;
  match::Node* node = posted_.take({header.context, header.source, header.tag});
  if (node == nullptr) {
    store(source, header, payload, header.length).sender = sender;
    return;
  }
  auto& t = *static_cast<Transfer*>(node);
  matched(t, source, header.source, header.tag, header.length);
  if (sync) [[unlikely]]
    acknowledge(source, sender);
  consumed(source, header.length);
  take_eager(t, payload, header.length);
}

void Engine::announcement_arrived(uint32_t source, const ReadyToSend& rts, size_t size) {
  if ((rts.flags & ReadyToSend::kRegion) != 0) [[unlikely]]
    learn_region(source, rts);
  if (match::Node* node = posted_.take({rts.context, rts.source, rts.tag})) {
    auto& t = *static_cast<Transfer*>(node);
    matched(t, source, rts.source, rts.tag, rts.bytes);
    return start_rendezvous(t, source, rts);
  }
  Message& kept = store(source, rts, reinterpret_cast<const std::byte*>(&rts), size);
  kept.sender = rts.sender;
  kept.completion.bytes = rts.bytes;
}

void Engine::deliver(uint32_t source, const std::byte* message, size_t size) {
  const auto& header = *reinterpret_cast<const Header*>(message);
  if (header.type == Type::eager) [[likely]]
    return eager_arrived(source, header, message);
  switch (header.type) {
    case Type::eager:
    case Type::eager_sync:
      return eager_arrived(source, header, message);
    case Type::ready_to_send:
      return announcement_arrived(source, *reinterpret_cast<const ReadyToSend*>(message), size);
    case Type::clear_to_send:
      return on_clear_to_send(*reinterpret_cast<const ClearToSend*>(message));
    case Type::data:
      return on_data(*reinterpret_cast<const Data*>(message), message + sizeof(Data));
    case Type::finish:
    case Type::acknowledge:
      return on_finish(reinterpret_cast<const Reply*>(message)->sender);
    case Type::finish_many:
      for (size_t i = 0; i < header.length; ++i)
        on_finish(reinterpret_cast<const Finished*>(message)->senders[i]);
      return;
    case Type::cancel:
      return on_cancel(source, *reinterpret_cast<const Reply*>(message));
    case Type::cancel_reply:
      if (header.flags != 0) on_withdrawn(reinterpret_cast<const Reply*>(message)->sender);
      return;
    case Type::credit:
      peers_[source].eager_credited = reinterpret_cast<const Credit*>(message)->bytes;
      return;
    case Type::scratch_ready:
      return on_scratch_ready(source, *reinterpret_cast<const ScratchChunk*>(message));
    case Type::scratch_done:
      return on_scratch_done(*reinterpret_cast<const ScratchChunk*>(message));
    case Type::drop_mapping:
      return on_drop(source, *reinterpret_cast<const DropMapping*>(message));
  }
}

}  // namespace weft::p2p
