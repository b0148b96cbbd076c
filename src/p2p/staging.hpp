// SPDX-License-Identifier: BSD-3-Clause
// Staging: one transfer's pinned chunks, through which device memory is moved where no GPU can reach the
// other side. Two chunks: one is filled while the other is emptied, by fragments or by the receiver's
// reading.
#pragma once
#include <cstdint>

#include "device/copy.hpp"
#include "device/pinned.hpp"

namespace weft::p2p {

struct Staging {
  struct Chunk {
    device::PinnedBuffer pinned;
    device::Ticket ticket;
    uint64_t offset = 0;   ///< of its first byte in the message
    size_t size = 0;       ///< bytes in it; 0: free
    size_t sent = 0;       ///< sender: bytes handed to the transport
    bool offered = false;  ///< sender: the receiver is reading it
  };
  Chunk chunks[2];
  uint64_t next = 0;    ///< sender: first byte not yet copied to a chunk
  unsigned turn = 0;    ///< the chunk to be sent, or being filled by the receiver
  bool offers = false;  ///< sender: whole chunks are offered to the receiver, which reads them from here
  [[nodiscard]] bool any_offered() const { return chunks[0].offered || chunks[1].offered; }
};

}  // namespace weft::p2p
