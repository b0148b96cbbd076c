// SPDX-License-Identifier: BSD-3-Clause
// Staging: one transfer's pinned chunks, through which device memory is moved where no GPU can reach the
// other side. Two chunks: one is filled while the other is emptied.
#pragma once
#include <cstdint>

#include "device/copy.hpp"
#include "device/pinned.hpp"

namespace weft::p2p {

struct Staging {
  struct Chunk {
    device::PinnedBuffer pinned;
    device::Ticket ticket;
    uint64_t offset = 0;  ///< of its first byte in the message
    size_t size = 0;      ///< bytes in it; 0: free
    size_t sent = 0;      ///< sender: bytes handed to the transport
  };
  Chunk chunks[2];
  uint64_t next = 0;  ///< sender: first byte not yet copied to a chunk
  unsigned turn = 0;  ///< the chunk to be sent, or being filled by the receiver
};

}  // namespace weft::p2p
