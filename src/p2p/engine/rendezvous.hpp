// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: the protocols of messages that are not eager: the receiver's choice after matching, the hooks
// of the sender, and the messages between both (CTS, FIN, cancel). Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "p2p/engine/outgoing.hpp"
#include "p2p/engine/protocol_table.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

class Rendezvous final : public SendProtocols {
 public:
  Rendezvous(Engine& engine, const ProtocolTable& table) : engine_(engine), table_(table) {}

  [[nodiscard]] const ProtocolTable& protocols() const { return table_; }

  // Receiver.
  /// Starts a matched receive.
  void start(Transfer& t, uint32_t source, const ReadyToSend& rts);
  /// Starts a matched receive by the best protocol that is not in `tried`, a set of indices as bits.
  void start_protocol(Transfer& t, const ReadyToSend& rts, uint32_t tried);
  /// The same without one protocol, which has failed.
  void start_without(const Protocol& failed, Transfer& t, const ReadyToSend& rts) {
    start_protocol(t, rts, uint32_t{1} << table_.index_of(failed));
  }
  /// Asks the sender of a matched receive to move the payload by a protocol.
  void clear_to_send(Transfer& t, const Protocol& protocol);
  /// Ends a send whose payload this process needs no more (FIN).
  void finish_sender(uint32_t source, core::RequestId sender, uint8_t flags = 0);
  /// Ends the send of an RTS whose payload will not be read.
  void refuse(uint32_t source, const ReadyToSend& rts);
  void on_data(uint32_t source, const Data& data, const std::byte* payload);
  void on_chunk_ready(uint32_t source, const BounceChunk& chunk);
  void on_cancel(uint32_t source, const Reply& request);

  // Sender.
  [[nodiscard]] bool send_from_device(Transfer& t) override;
  [[nodiscard]] RtsPart append_rts(Transfer& t, ReadyToSend& rts, std::byte* out) override;
  void rts_posted(Transfer& t) override;
  /// Cancels a send if the peer has not matched its RTS. It completes by the reply, or normally.
  void cancel(Transfer& t) override;
  void on_clear_to_send(uint32_t source, const ClearToSend& cts);
  void on_finish(uint32_t source, core::RequestId sender, bool all_consumed = false);
  void on_cancelled(uint32_t source, core::RequestId sender);
  void on_chunk_done(uint32_t source, const BounceChunk& chunk);
  void on_copy_offer(uint32_t source, const CopyOffer& offer);

 private:
  Engine& engine_;
  const ProtocolTable& table_;
};

}  // namespace weft::p2p
