// SPDX-License-Identifier: BSD-3-Clause
// Messages to other processes: capacity, the backlog, credit, RTS. Eager messages: outgoing_eager.cpp.
#include "p2p/engine/outgoing.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "base/trace.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/type_check.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {

config::Size credit{
    "p2p.credit",
    1 << 20,
    1 << 12,
    1 << 30,
    "Bytes of eager messages that one peer may have buffered here unexpectedly; further messages use "
    "rendezvous. Larger values use more memory per peer.",
    "a receiver runs out of memory because of unexpected messages (smaller), or many senders send to "
    "a slow receiver (larger)"};

namespace {

using counters::Unit;
counters::Counter device_messages("p2p.device_sent_messages", Unit::events, "Messages sent from GPU memory");
counters::Counter device_bytes("p2p.device_sent_bytes", Unit::bytes,
                               "Bytes of messages sent from GPU memory");
counters::Counter managed_messages("p2p.managed_sent_messages", Unit::events,
                                   "Messages sent from managed memory by GPU protocols");
counters::Counter managed_bytes("p2p.managed_sent_bytes", Unit::bytes,
                                "Bytes of messages sent from managed memory by GPU protocols");

}  // namespace

Header Outgoing::header(const Transfer& t, Type type, uint64_t length) const {
  Header h{type};
  h.length = static_cast<uint32_t>(length);
  h.context = t.context;
  h.source = t.comm->rank();
  h.tag = t.tag;
  if (check_types_) [[unlikely]]
    h.signature = signature_of(t);
  return h;
}

[[gnu::always_inline]] inline bool Outgoing::try_control(uint32_t to, Peer& peer, const void* message,
                                                         size_t size, uint64_t registration) {
  std::byte* const slot = reserve_message(to, peer, size);
  if (slot == nullptr) return false;
  std::memcpy(slot, message, size);
  if (registration != 0) [[unlikely]]
    instance_.network->send_rts(to, size, registration);
  else
    commit_message(to, peer, size);
  return true;
}

void Outgoing::post_control(uint32_t to, const void* message, size_t size, uint64_t registration) {
  Peer& peer = peers_[to];
  if (peer.lost) [[unlikely]]
    return;
  if (!peer.blocked() && try_control(to, peer, message, size, registration)) return;
  std::memcpy(append_pending(to, PendingMessage{nullptr, size, registration, {}}).control, message, size);
}

void Outgoing::acknowledge(uint32_t to, core::RequestId sender) {
  Reply reply{};
  reply.type = Type::acknowledge;
  reply.sender = sender;
  post_control(to, &reply, sizeof reply);
}

void Outgoing::decline(uint32_t source, const ReadyToSend& rts) {
  if (!peers_[source].remote || (rts.flags & ReadyToSend::kRkey) == 0) return;
  const auto& rkey = *reinterpret_cast<const Rkey*>(&rts + 1);
  instance_.network->discard_rts(source, {rkey.bytes, rkey.size});
}

std::byte* Outgoing::reserve(uint32_t to, size_t size) {
  const Peer& peer = peers_[to];
  return peer.lost || peer.blocked() ? nullptr : reserve_message(to, peer, size);
}

PendingMessage& Outgoing::append_pending(uint32_t to, PendingMessage item) {
  Peer& peer = peers_[to];
  if (!peer.pending) peer.pending = std::make_unique<std::deque<PendingMessage>>();
  if (!peer.in_backlog) peer.in_backlog = true, backlog_.push_back(to);
  return peer.pending->emplace_back(std::move(item));
}

void Outgoing::enqueue(Transfer& t) {
  t.enter(Transfer::State::queued);
  (void)requests_.enlist(t);
  append_pending(t.peer, PendingMessage{&t, 0, 0, {}});
}

bool Outgoing::flush_all() {
  bool progressed = false;
  for (size_t i = 0; i < backlog_.size();) {
    progressed |= flush(backlog_[i]);
    if (peers_[backlog_[i]].in_backlog)
      ++i;
    else
      backlog_[i] = backlog_.back(), backlog_.pop_back();
  }
  return progressed;
}

bool Outgoing::flush(uint32_t to) {
  Peer& peer = peers_[to];
  bool progressed = false;
  while (peer.blocked() && !peer.pending->empty()) {
    PendingMessage& item = peer.pending->front();
    if (item.transfer != nullptr) {
      if (!try_eager(*item.transfer)) return progressed;
    } else if (!try_control(to, peer, item.control, item.size, item.registration)) {
      return progressed;
    }
    peer.pending->pop_front();
    progressed = true;
  }
  WEFT_ASSERT(!peer.blocked() || peer.pending->empty());  // C3
  peer.pending.reset();
  peer.in_backlog = false;
  return progressed;
}

void Outgoing::withdraw(const Transfer& t) {
  if (Peer& peer = peers_[t.peer]; peer.blocked())
    std::erase_if(*peer.pending, [&](const PendingMessage& item) { return item.transfer == &t; });
}

void Outgoing::lose(Peer& peer) {
  peer.lost = true;
  peer.eager_sent = uint64_t{1} << 62;  // never any credit
  peer.eager_credited = 0;
  drop_backlog(peer);
}

void Outgoing::forget(uint32_t peer) {
  Peer& forgotten = peers_[peer];
  forgotten.lost = true;
  forgotten.ring = nullptr;
  drop_backlog(forgotten);
  forgotten.in_backlog = false;
  std::erase(backlog_, peer);
}

/// The credit of a peer only grows, up to what was sent to it.
void Outgoing::on_credit(uint32_t source, const Credit& message) {
  Peer& peer = peers_[source];
  if (peer.lost) return;
  if (message.bytes - peer.eager_credited > peer.eager_sent - peer.eager_credited) return drop_malformed();
  peer.eager_credited = message.bytes;
}

void Outgoing::send(Transfer& t) {
  WEFT_ASSERT(t.peer != instance_.self);
  if (device_side(t)) [[unlikely]]
    return send_device(t);
  Peer& peer = peers_[t.peer];
  count_sent(peer, {t.context, t.comm->rank(), t.tag}, t.bytes);
  if (has_credit(t.peer, t.bytes, peer)) return send_eager(t, peer);
  // Some networks send host data from within progress(). Progressing here sends the first message of a
  // window while the application posts the others.
  const bool needs_progress = peer.remote;
  send_rts(t);
  if (needs_progress) [[unlikely]]
    instance_.progress();
}

void Outgoing::send_device(Transfer& t) {
  const bool managed = t.memory.kind == device::MemoryKind::cuda_managed;
  (managed ? managed_messages : device_messages).add();
  (managed ? managed_bytes : device_bytes).add(t.bytes);
  if (protocols_.send_from_device(t)) return;
  count_sent(peers_[t.peer], {t.context, t.comm->rank(), t.tag}, t.bytes);
  send_rts(t);
}

void Outgoing::send_rts(Transfer& t) {
  const trace::Range range("p2p.send_rts");
  const Peer& peer = peers_[t.peer];
  if (instance_.failures.failed(t.peer)) [[unlikely]]
    return requests_.complete(t, loss_error(instance_, t.peer));
  alignas(8) std::byte storage[kMaxControl];
  auto& rts = *new (storage) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = requests_.enlist(t);
  rts.bytes = t.bytes;
  if (!peer.remote) rts.address = reinterpret_cast<uint64_t>(t.address);
  if (t.contiguous) rts.flags |= ReadyToSend::kContiguous;
  if (device_side(t)) rts.flags |= ReadyToSend::kDevice;
  RtsPart part{0};
  if (device_side(t) || peer.remote) part = protocols_.append_rts(t, rts, storage + sizeof rts);
  if (!t.outcome) [[unlikely]]
    return requests_.complete(t);
  t.enter(Transfer::State::rts_sent);
  post_control(t.peer, storage, sizeof rts + part.size, part.registration);
  if (t.protocol != nullptr) protocols_.rts_posted(t);
  // A peer that has given up the collective, too, never receives this message.
  if (instance_.failures.changes() != 0 && t.in_collective() && !instance_.failures.check(*t.comm).ok())
      [[unlikely]]
    protocols_.cancel(t);
}

}  // namespace weft::p2p
