// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/rendezvous.hpp"

#include <utility>

#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {

bool Rendezvous::send_from_device(Transfer& t) {
  engine_.copies.keep_running();
  for (const Protocol* protocol : table_.that_send())
    if (protocol->send(engine_, t)) return true;
  return false;
}

/// Without an appended part, only fragments are possible.
RtsPart Rendezvous::append_rts(Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (!engine_.peers[t.peer].remote) engine_.instance.memory->withdraw_freed();
  for (const Protocol* protocol : table_.that_append())
    if (const auto part = protocol->append_rts(engine_, t, rts, out)) return *part;
  return {0};
}

void Rendezvous::rts_posted(Transfer& t) {
  if (t.protocol->rts_posted != nullptr) t.protocol->rts_posted(engine_, t);
}

void Rendezvous::refuse(uint32_t source, const ReadyToSend& rts) {
  engine_.outgoing.decline(source, rts);
  finish_sender(source, rts.sender);
}

void Rendezvous::start(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (source == engine_.instance.self) {
    Transfer* const sender = engine_.requests.find(rts.sender, source, Transfer::State::rts_sent);
    WEFT_ASSERT(sender != nullptr);
    return engine_.loopback.copy(t, *sender);
  }
  if (engine_.instance.failures.failed(source)) [[unlikely]]
    return engine_.requests.complete(t, loss_error(engine_.instance, source));
  t.remote = rts.sender;
  if (rts.bytes > t.bytes) {
    t.completion.bytes = t.bytes;
    refuse(source, rts);
    return engine_.requests.complete(t, truncation_error(t));
  }
  if (rts.bytes == 0) {
    finish_sender(source, rts.sender);
    return engine_.requests.complete(t);
  }
  start_protocol(t, rts, 0);
}

void Rendezvous::start_protocol(Transfer& t, const ReadyToSend& rts, uint32_t tried) {
  const uint32_t source = t.peer;
  const auto has = [&](int flags) { return (rts.flags & flags) == flags; };
  const MessageInfo message{.to = t.memory.kind,
                            .remote = engine_.peers[source].remote,
                            .rkey = has(ReadyToSend::kRkey),
                            .device = has(ReadyToSend::kDevice),
                            .contiguous = has(ReadyToSend::kContiguous),
                            .region = has(ReadyToSend::kRegion) || has(ReadyToSend::kRegionName),
                            .bounce = has(ReadyToSend::kBounce),
                            .eager_pack = has(ReadyToSend::kEagerPack),
                            .strided = has(ReadyToSend::kStrided) && !has(ReadyToSend::kBounce),
                            .bytes = rts.bytes,
                            .shm = engine_.instance.shm,
                            .source = source};
  for (;;) {
    const Protocol* const protocol = table_.select(message, tried);
    WEFT_ASSERT(protocol != nullptr);    // R5
    WEFT_ASSERT(t.protocol == nullptr);  // R3
    const uint64_t bytes = rts.bytes;
    const int tag = rts.tag;
    if (protocol->init(engine_, t, rts)) {
      protocol->received->messages.add();
      protocol->received->bytes.add(bytes);
      if (protocol_chosen.wanted()) [[unlikely]]
        protocol_chosen.raise({source, static_cast<uint64_t>(tag), bytes, table_.index_of(*protocol)});
      return;
    }
    engine_.requests.leave_protocol(t);
    tried |= uint32_t{1} << table_.index_of(*protocol);
  }
}

void Rendezvous::clear_to_send(Transfer& t, const Protocol& protocol) {
  ClearToSend cts{};
  cts.type = Type::clear_to_send;
  cts.flags = table_.index_of(protocol);
  cts.sender = t.remote;
  cts.receiver = engine_.requests.enlist(t);
  t.enter(Transfer::State::receiving);
  engine_.outgoing.post_control(t.peer, &cts, sizeof cts);
}

void Rendezvous::on_clear_to_send(uint32_t source, const ClearToSend& cts) {
  Transfer* const t = engine_.requests.find(cts.sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  const Protocol* const protocol = table_.at(cts.flags);
  if (protocol == nullptr || protocol->accept == nullptr || !protocol->accept(engine_, *t)) [[unlikely]]
    return drop_malformed();
  t->remote = cts.receiver;
  t->transferred = 0;
  t->enter(Transfer::State::streaming);
  engine_.requests.start_polling(*t);
}

void Rendezvous::on_copy_offer(uint32_t source, const CopyOffer& offer) {
  Transfer* const t = engine_.requests.find(offer.sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  if (!table_.that_helps()->help(engine_, *t, offer)) [[unlikely]]
    drop_malformed();
}

void Rendezvous::on_data(uint32_t source, const Data& data, const std::byte* payload) {
  const trace::Range range("p2p.fragment");
  Transfer* const t = engine_.requests.find(data.receiver, source, Transfer::State::receiving);
  if (t == nullptr) return;
  if (t->protocol->on_data == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_data(engine_, *t, data, payload);
}

void Rendezvous::on_chunk_ready(uint32_t source, const BounceChunk& chunk) {
  Transfer* const t = engine_.requests.find(chunk.receiver, source, Transfer::State::receiving);
  if (t == nullptr) return;
  if (t->protocol->on_chunk_ready == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_chunk_ready(engine_, *t, chunk);
}

void Rendezvous::on_chunk_done(uint32_t source, const BounceChunk& chunk) {
  Transfer* const t = engine_.requests.find(chunk.sender, source, Transfer::State::streaming);
  if (t == nullptr) return;
  if (t->protocol->on_chunk_done == nullptr) [[unlikely]]
    return drop_malformed();
  t->protocol->on_chunk_done(engine_, *t, chunk);
}

void Rendezvous::finish_sender(uint32_t source, core::RequestId sender, uint8_t flags) {
  const trace::Range range("p2p.finish_sender");
  if (source == engine_.instance.self) return on_finish(source, sender);
  Reply reply{};
  reply.type = Type::finish;
  reply.flags = flags;
  reply.sender = sender;
  engine_.outgoing.post_control(source, &reply, sizeof reply);
}

void Rendezvous::on_finish(uint32_t source, core::RequestId sender, bool all_consumed) {
  Transfer* const t = engine_.requests.find(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  if (t->protocol != nullptr && t->protocol->finished != nullptr)
    return t->protocol->finished(engine_, *t, all_consumed);
  engine_.requests.complete(*t);
}

void Rendezvous::cancel(Transfer& t) {
  if (t.kind != core::Request::Kind::send || t.state != Transfer::State::rts_sent) return;
  Reply request{};
  static_cast<Header&>(request) = engine_.outgoing.header(t, Type::cancel, 0);
  request.sender = t.id;
  if (t.peer == engine_.instance.self)
    on_cancel(t.peer, request);
  else
    engine_.outgoing.post_control(t.peer, &request, sizeof request);
}

void Rendezvous::on_cancel(uint32_t source, const Reply& request) {
  if (request.sender == core::kNoRequest) return drop_malformed();
  const bool removed = engine_.delivery.remove_cancelled(source, request);
  if (source == engine_.instance.self) {
    if (removed) on_cancelled(source, request.sender);
    return;
  }
  Reply reply{};
  reply.type = Type::cancel_reply;
  reply.flags = removed ? 1 : 0;
  reply.sender = request.sender;
  engine_.outgoing.post_control(source, &reply, sizeof reply);
}

void Rendezvous::on_cancelled(uint32_t source, core::RequestId sender) {
  Transfer* const t = engine_.requests.find(sender, source, Transfer::State::rts_sent);
  if (t == nullptr) return;
  Status usable;
  if (t->comm->revoked || t->in_collective()) usable = engine_.instance.failures.check(*t->comm);
  if (usable.ok())
    t->completion.cancelled = true;
  else
    t->outcome = std::move(usable);
  on_finish(source, sender);
}

}  // namespace weft::p2p
