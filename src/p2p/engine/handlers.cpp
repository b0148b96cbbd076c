// SPDX-License-Identifier: BSD-3-Clause
// The handlers of all message types of p2p/.
#include "p2p/engine/engine.hpp"
#include "p2p/message/events.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {
namespace {

template <class H>
const std::byte* payload_after(const H& header) {
  return reinterpret_cast<const std::byte*>(&header + 1);
}

/// Registers the handler of a message type: handle(engine, source, header, size), called for well-formed
/// messages only.
template <class H, class F>
void on(Engine& owner, Type type, F) {
  WEFT_ASSERT(sizeof(H) == header_size(type));
  owner.instance.handlers.add<H>(static_cast<transport::am::HandlerId>(type), owner,
                                 [](Engine& engine, uint32_t source, const H& header, size_t size) {
                                   const auto* message = reinterpret_cast<const std::byte*>(&header);
                                   if (!well_formed(message, size, engine.peers[source].remote)) [[unlikely]]
                                     return drop_malformed();
                                   F{}(engine, source, header, size);
                                 });
}

}  // namespace

void Engine::register_handlers() {
  delivery.register_eager_handler();
  message_matched.set_hook([this] { delivery.register_eager_handler(); });
  on<EagerSync>(*this, Type::eager_sync, [](Engine& e, uint32_t source, const EagerSync& m, size_t) {
    e.delivery.on_observed_eager(source, m, payload_after(m), m.sender);
  });
  on<Header>(*this, Type::eager_typed, [](Engine& e, uint32_t source, const Header& m, size_t) {
    Header eager = m;
    eager.type = Type::eager;
    e.delivery.on_observed_eager(source, eager, payload_after(m), core::kNoRequest);
  });
  on<ReadyToSend>(*this, Type::ready_to_send,
                  [](Engine& e, uint32_t source, const ReadyToSend& m, size_t size) {
                    e.delivery.on_rts(source, m, size);
                  });
  on<Credit>(*this, Type::credit,
             [](Engine& e, uint32_t source, const Credit& m, size_t) { e.outgoing.on_credit(source, m); });
  on<ClearToSend>(*this, Type::clear_to_send, [](Engine& e, uint32_t source, const ClearToSend& m, size_t) {
    e.rendezvous.on_clear_to_send(source, m);
  });
  on<Data>(*this, Type::data, [](Engine& e, uint32_t source, const Data& m, size_t) {
    e.rendezvous.on_data(source, m, payload_after(m));
  });
  on<Reply>(*this, Type::finish, [](Engine& e, uint32_t source, const Reply& m, size_t) {
    e.rendezvous.on_finish(source, m.sender, (m.flags & Reply::kConsumed) != 0);
  });
  on<Reply>(*this, Type::acknowledge, [](Engine& e, uint32_t source, const Reply& m, size_t) {
    e.rendezvous.on_finish(source, m.sender);
  });
  on<Header>(*this, Type::finish_many, [](Engine& e, uint32_t source, const Header& m, size_t) {
    const auto* senders = reinterpret_cast<const core::RequestId*>(&m + 1);
    for (size_t i = 0; i < m.length; ++i) e.rendezvous.on_finish(source, senders[i]);
  });
  on<Reply>(*this, Type::cancel,
            [](Engine& e, uint32_t source, const Reply& m, size_t) { e.rendezvous.on_cancel(source, m); });
  on<Reply>(*this, Type::cancel_reply, [](Engine& e, uint32_t source, const Reply& m, size_t) {
    if (m.flags != 0) e.rendezvous.on_cancelled(source, m.sender);
  });
  on<BounceChunk>(*this, Type::chunk_ready, [](Engine& e, uint32_t source, const BounceChunk& m, size_t) {
    e.rendezvous.on_chunk_ready(source, m);
  });
  on<BounceChunk>(*this, Type::chunk_done, [](Engine& e, uint32_t source, const BounceChunk& m, size_t) {
    e.rendezvous.on_chunk_done(source, m);
  });
  on<CopyOffer>(*this, Type::copy_offer, [](Engine& e, uint32_t source, const CopyOffer& m, size_t) {
    e.rendezvous.on_copy_offer(source, m);
  });
  on<ReadyToSend>(*this, Type::region,
                  [](Engine& e, uint32_t source, const ReadyToSend& m, size_t) { e.regions.add(source, m); });
  using Check = GdrCheckMessage;
  on<Check>(*this, Type::gdr_check_request,
            [](Engine& e, uint32_t source, const Check& m, size_t) { e.gpudirect.on_request(source, m); });
  on<Check>(*this, Type::gdr_check_reply,
            [](Engine& e, uint32_t source, const Check& m, size_t) { e.gpudirect.on_reply(source, m); });
  on<Check>(*this, Type::gdr_check_done,
            [](Engine& e, uint32_t source, const Check& m, size_t) { e.gpudirect.on_done(source, m); });
}

}  // namespace weft::p2p
