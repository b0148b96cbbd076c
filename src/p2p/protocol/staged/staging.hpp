// SPDX-License-Identifier: BSD-3-Clause
// Pinned host chunks of one request, for device memory that no GPU of the peer can map. Two chunks are
// double-buffered: one is filled while the other is sent as fragments, read by the receiver, or uploaded.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/memory/limit.hpp"
#include "p2p/memory/staging_limits.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/peer.hpp"
#include "p2p/message/transfer.hpp"
#include "p2p/protocol/pipeline/pipeline.hpp"

namespace weft::p2p {

class Engine;

/// A send through pinned chunks: the receiver reads them, or they are sent as fragments.
struct PinnedSend final : PipelinedSend {
  PinnedSend(StagingLimits& limits, bool read_by_receiver);
  /// The receiver has read a chunk, or could not: then this chunk and all later ones are sent as fragments.
  void on_chunk_done(Transfer& t, const BounceChunk& chunk);

 private:
  Result<Slot> reserve(const Transfer& t, uint64_t bytes) override;
  void release(uint64_t number, size_t) override {
    WEFT_ASSERT(used_[number]);  // P3
    used_[number] = false;
  }
  Result<Handover> hand_over(Engine& engine, Transfer& t, Chunk& chunk) override;
  bool send_without_chunk(Engine& engine, Transfer& t) override;
  void post_failure(Engine& engine, const Transfer& t) const override;

  device::PinnedBuffer pinned_[2];  // kept while the request lasts
  bool used_[2] = {};
  size_t sent_ = 0;  // bytes of the chunk being sent as fragments
  bool receiver_reads_;
};

/// The chunks of a receive.
struct Staging final : ProtocolState {
  struct Chunk {
    device::PinnedBuffer pinned;
    device::Ticket ticket;
    uint64_t offset = 0;  ///< of the chunk's first byte in the message
    size_t size = 0;      ///< bytes in the chunk; 0: unused
  };
  Chunk chunks[2];
  unsigned current = 0;  ///< chunk being filled
  Limit::Use use;        ///< of pinned memory: StagingLimits
};

/// Leases a pinned chunk of a receive. Returns false if none is free, or with `outcome` set.
[[nodiscard]] bool lease_chunk(Transfer& t, unsigned chunk);
/// Copies a pinned chunk to bytes [offset, offset + n) of the receiver's message.
[[nodiscard]] Status upload(const Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n);
/// Completes the receive when the uploads from its chunks have ended.
void track_uploads(Engine& engine, Transfer& t);
/// Waits for uploads in flight from the chunks, whose outcome no longer matters.
void wait_for_uploads(Transfer& t);
/// Receiver: stores a fragment for device memory.
void upload_fragment(Engine& engine, Transfer& t, const Data& data, const std::byte* payload);
/// Receiver in host memory: reads an announced chunk of the sender.
void read_pinned_chunk(Engine& engine, Transfer& t, const BounceChunk& chunk);
/// Sends one fragment of at most `n` bytes at `offset`, written by fill(slot, size); an error of fill()
/// aborts the stream. Returns the fragment's size; 0: no capacity.
template <class Fill>
size_t send_fragment(const Peer& peer, Transfer& t, uint64_t offset, uint64_t n, Fill&& fill) {
  if (peer.pending != nullptr) return 0;
  const size_t size = std::min<uint64_t>(n, peer.transport->max_message(t.peer) - sizeof(Data));
  std::byte* slot = peer.transport->reserve(t.peer, sizeof(Data) + size);
  if (slot == nullptr) return 0;
  Data& data = *new (slot) Data{};
  data.type = Type::data;
  data.length = static_cast<uint32_t>(size);
  data.receiver = t.remote;
  data.offset = offset;
  if (Status filled = fill(slot + sizeof(Data), size); !filled) [[unlikely]] {
    data.flags = Data::kAborted;
    t.outcome = std::move(filled);
  }
  peer.transport->commit(t.peer, sizeof(Data) + size);
  return size;
}

}  // namespace weft::p2p
