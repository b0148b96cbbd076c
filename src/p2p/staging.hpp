// SPDX-License-Identifier: BSD-3-Clause
// Staging: the pinned host chunks of one transfer, for device memory that no GPU of the peer can map. Two
// chunks are double-buffered: one is filled while the other is sent as fragments or read by the receiver.
#pragma once
#include <cstdint>

#include "device/copy.hpp"
#include "device/pinned.hpp"

namespace weft::p2p {

struct Staging {
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
  [[nodiscard]] bool any_announced() const { return chunks[0].announced || chunks[1].announced; }
};

}  // namespace weft::p2p
