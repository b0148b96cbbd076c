// SPDX-License-Identifier: BSD-3-Clause
// Staging: the pinned host chunks of one transfer, for device memory that no GPU of the peer can map. Two
// chunks are double-buffered: one is filled while the other is sent as fragments or read by the receiver.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/header.hpp"
#include "p2p/peer.hpp"
#include "p2p/protocol/limit.hpp"
#include "p2p/transfer.hpp"

namespace weft::p2p {

struct Staging final : ProtocolState {
  struct Chunk {
    device::PinnedBuffer pinned;
    device::Ticket ticket;
    uint64_t offset = 0;     ///< of the chunk's first byte in the message
    size_t size = 0;         ///< bytes in the chunk; 0: unused
    size_t sent = 0;         ///< sender: bytes handed to the transport
    bool announced = false;  ///< sender: the receiver is reading the chunk
  };
  Chunk chunks[2];
  uint64_t next = 0;            ///< sender: first byte not yet copied to a chunk
  unsigned current = 0;         ///< chunk being sent (sender) or filled (receiver)
  bool receiver_reads = false;  ///< sender: announce whole chunks, which the receiver reads
  Limit::Use use;               ///< of pinned memory: StagingLimits
  [[nodiscard]] bool any_announced() const { return chunks[0].announced || chunks[1].announced; }
};

/// Pinned memory is scarce, so the number of requests that hold pieces of it is limited. Receives send their
/// CTS in order and senders stream in CTS order, so the oldest request always progresses.
struct StagingLimits {
  Limit sends{4};     ///< from device memory: two pinned chunks each, or fragments for another host
  Limit receives{4};  ///< into device memory: two pinned chunks each
  Limit gets{4};      ///< from another host, through staging buffers
};

/// Leases a pinned chunk of a request. Returns false if none is free, or with `outcome` set.
[[nodiscard]] bool lease_chunk(Transfer& t, unsigned chunk);
/// Copies a pinned chunk to bytes [offset, offset + n) of the receiver's message.
[[nodiscard]] Status upload(const Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n);
/// Completes the receive when the uploads from its chunks have ended.
void track_uploads(Engine& engine, Transfer& t);
/// Waits for copies in flight from or to the chunks, whose outcome no longer matters.
void wait_for_chunks(Transfer& t);
/// Sender: fills chunks and sends or announces them. Returns false if nothing progressed.
bool stream_device(Engine& engine, Transfer& t);
/// Receiver: stores a fragment for device memory.
void upload_fragment(Engine& engine, Transfer& t, const Data& data, const std::byte* payload);
/// Receiver in host memory: reads an announced chunk of the sender. Sender: the chunk has been read.
void read_pinned_chunk(Engine& engine, Transfer& t, const BounceChunk& chunk);
void on_pinned_chunk_done(Engine& engine, Transfer& t, const BounceChunk& chunk);
/// The sender failed: notifies the receiver, which would wait forever. The send ends once the receiver has
/// returned all announced chunks.
void abort_stream(Engine& engine, Transfer& t, Error error);
/// Receives an eager message into device memory. The payload is valid during this call only.
void upload_eager(Engine& engine, Transfer& t, const std::byte* payload, size_t size);
/// Reads the peer's host memory at `address` into bytes [offset, offset + n) of a message in host memory.
[[nodiscard]] Status get_part(Engine& engine, Transfer& t, uint64_t address, uint64_t offset, uint64_t n);

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
