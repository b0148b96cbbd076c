// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: the sender sends an RTS. After matching, the receiver selects a protocol, which gets the
// payload and replies with a FIN, or asks the sender for it with a CTS.
#include <cstring>
#include <utility>

#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/protocol.hpp"
#include "p2p/protocol/truncation.hpp"
#include "p2p/staging.hpp"

namespace weft::p2p {
void Engine::send_rts(Transfer& t) {
  const trace::Range range("p2p.send_rts");
  const Peer& peer = peers_[t.peer];
  if (instance.failures.failed(t.peer)) [[unlikely]]
    return complete(t, loss_error(t.peer));
  alignas(8) std::byte storage[kMaxControl];
  auto& rts = *new (storage) ReadyToSend{};
  static_cast<Header&>(rts) = header(t, Type::ready_to_send, 0);
  rts.sender = enlist(t);
  rts.bytes = t.bytes;
  if (!peer.remote) rts.address = reinterpret_cast<uint64_t>(t.address);
  if (t.contiguous) rts.flags |= ReadyToSend::kContiguous;
  if (device_side(t)) rts.flags |= ReadyToSend::kDevice;
  RtsPart part{0};
  if (device_side(t) || peer.remote) part = append_rts(t, rts, storage + sizeof rts);
  if (!t.outcome) [[unlikely]]
    return complete(t);
  t.enter(Transfer::State::rts_sent);
  post_control(t.peer, storage, sizeof rts + part.size, part.registration);
  if (t.protocol != nullptr && t.protocol->rts_posted != nullptr) t.protocol->rts_posted(*this, t);
  // A peer that has given up the collective, too, never receives this message.
  if (check_sources_ && t.in_collective() && !instance.failures.check(*t.comm).ok()) [[unlikely]]
    cancel(t);
}

/// Appends how the receiver reaches the payload; without it, only fragments are possible.
RtsPart Engine::append_rts(Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (!peers_[t.peer].remote) instance.memory->withdraw_freed();
  for (const Protocol* protocol : protocols_that_append())
    if (const auto part = protocol->append_rts(*this, t, rts, out)) return *part;
  return {0};
}

void Engine::start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (source == instance.self) {
    Transfer* const sender = find_transfer(rts.sender, source, Transfer::State::rts_sent);
    WEFT_ASSERT(sender != nullptr);
    return copy_from_self(t, *sender);
  }
  if (instance.failures.failed(source)) [[unlikely]]
    return complete(t, loss_error(source));
  t.remote = rts.sender;
  if (rts.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    decline(source, rts);
    finish_sender(source, rts.sender);
    return complete(t, truncation_error(t));
  }
  if (rts.bytes == 0) {
    finish_sender(source, rts.sender);
    return complete(t);
  }
  start_protocol(t, rts, 0);
}

void Engine::start_protocol(Transfer& t, const ReadyToSend& rts, uint32_t tried) {
  const uint32_t source = t.peer;
  const auto has = [&](int flags) { return (rts.flags & flags) == flags; };
  const MessageInfo message{.to = t.memory.kind,
                            .remote = peers_[source].remote,
                            .rkey = has(ReadyToSend::kRkey),
                            .device = has(ReadyToSend::kDevice),
                            .contiguous = has(ReadyToSend::kContiguous),
                            .region = has(ReadyToSend::kRegion) || has(ReadyToSend::kRegionName),
                            .bounce = has(ReadyToSend::kBounce),
                            .eager_pack = has(ReadyToSend::kEagerPack),
                            .strided = has(ReadyToSend::kStrided) && !has(ReadyToSend::kBounce),
                            .bytes = rts.bytes,
                            .shm = shm_.get(),
                            .source = source};
  for (;;) {
    const Protocol* const protocol = select(message, tried);
    WEFT_ASSERT(protocol != nullptr);  // fragments never fail
    const uint64_t bytes = rts.bytes;
    const int tag = rts.tag;
    if (protocol->init(*this, t, rts)) return count_message(*protocol, source, tag, bytes);
    leave_protocol(t);
    tried |= uint32_t{1} << index_of(*protocol);
  }
}

void Engine::clear_to_send(Transfer& t, const Protocol& protocol) {
  ClearToSend cts{};
  cts.type = Type::clear_to_send;
  cts.flags = index_of(protocol);
  cts.sender = t.remote;
  cts.receiver = enlist(t);
  t.enter(Transfer::State::receiving);
  post_control(t.peer, &cts, sizeof cts);
}

void Engine::on_clear_to_send(uint32_t source, const ClearToSend& cts) {
  Transfer* const t = find_transfer(cts.sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  const auto table = protocols();
  if (t->protocol == &kSingleCopy) leave_protocol(*t);  // the receiver could not copy
  if (cts.flags >= table.size() || table[cts.flags]->accept == nullptr ||
      !table[cts.flags]->accept(*this, *t)) [[unlikely]]
    return drop_malformed();
  t->remote = cts.receiver;
  t->transferred = 0;
  t->enter(Transfer::State::streaming);
  start_polling(*t);
}

void Engine::on_copy_offer(uint32_t source, const CopyOffer& offer) {
  Transfer* const t = find_transfer(offer.sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  if (!help_copy(*this, *t, offer)) [[unlikely]]
    drop_malformed();
}

void Engine::on_data(uint32_t source, const Data& data, const std::byte* payload) {
  const trace::Range range("p2p.fragment");
  Transfer* const t = find_transfer(data.receiver, source, Transfer::State::receiving);
  if (t == nullptr) return;
  if (t->protocol->on_data == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_data(*this, *t, data, payload);
}

void Engine::on_chunk_ready(uint32_t source, const BounceChunk& chunk) {
  Transfer* const t = find_transfer(chunk.receiver, source, Transfer::State::receiving);
  if (t == nullptr) return;
  if (t->protocol->on_chunk_ready == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_chunk_ready(*this, *t, chunk);
}

void Engine::on_chunk_done(uint32_t source, const BounceChunk& chunk) {
  Transfer* const t = find_transfer(chunk.sender, source, Transfer::State::streaming);
  if (t == nullptr) return;
  if (t->protocol->on_chunk_done == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_chunk_done(*this, *t, chunk);
}

void Engine::copy_from_self(Transfer& t, Transfer& sender) {
  if (sender.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    complete(sender);
    return complete(t, truncation_error(t));
  }
  if (device_side(t) || device_side(sender)) return copy_device_self(t, sender);
  if (t.contiguous && sender.contiguous) {
    if (sender.bytes != 0) std::memmove(t.address, sender.address, sender.bytes);
  } else {
    datatype::copy(sender.address, sender.count, *sender.type, t.address, t.count, *t.type);
  }
  complete(sender);
  complete(t);
}

void Engine::finish_sender(uint32_t source, core::RequestId sender, uint8_t flags) {
  const trace::Range range("p2p.finish_sender");
  if (source == instance.self) return on_finish(source, sender);
  Reply reply{};
  reply.type = Type::finish;
  reply.flags = flags;
  reply.sender = sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_finish(uint32_t source, core::RequestId sender, bool all_consumed) {
  Transfer* const t = find_transfer(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  if (t->protocol != nullptr && t->protocol->finished != nullptr)
    return t->protocol->finished(*this, *t, all_consumed);
  complete(*t);
}

// An unmatched receive is cancelled at once. A send is cancelled if the peer has not matched its RTS; it
// completes by the reply, or normally.
void Engine::cancel(Transfer& t) {
  if (t.kind == core::Request::Kind::receive && t.state == Transfer::State::posted) {
    if (t.advertised != 0 && !retract(t)) return;  // the sender is writing into its buffer
    posted_.remove(t);
    t.completion.cancelled = true;
    return complete(t);
  }
  if (t.kind != core::Request::Kind::send || t.state != Transfer::State::rts_sent) return;
  Reply request{};
  static_cast<Header&>(request) = header(t, Type::cancel, 0);
  request.sender = t.id;
  if (t.peer == instance.self)
    on_cancel(instance.self, request);
  else
    post_control(t.peer, &request, sizeof request);
}

void Engine::on_cancel(uint32_t source, const Reply& request) {
  if (request.sender == core::kNoRequest) return drop_malformed();
  UnexpectedMessage* found = nullptr;
  unexpected_.for_each(request.context, [&](match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    if (message.peer == source && message.sender == request.sender) found = &message;
    return found == nullptr;
  });
  if (found != nullptr) {
    unexpected_.remove(*found);
    if (found->type == Type::eager_sync) consumed(source, found->size);
    if (found->type == Type::ready_to_send)
      decline(source, *reinterpret_cast<const ReadyToSend*>(found->data()));
    dispose(*found);
    if (source == instance.self) return on_cancelled(source, request.sender);
  }
  if (source == instance.self) return;
  Reply reply{};
  reply.type = Type::cancel_reply;
  reply.flags = found != nullptr ? 1 : 0;
  reply.sender = request.sender;
  post_control(source, &reply, sizeof reply);
}

void Engine::on_cancelled(uint32_t source, core::RequestId sender) {
  Transfer* const t = find_transfer(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  Status usable;
  if (t->comm->revoked || t->in_collective()) usable = instance.failures.check(*t->comm);
  if (usable.ok())
    t->completion.cancelled = true;
  else
    t->outcome = std::move(usable);
  on_finish(source, sender);
}

}  // namespace weft::p2p
