// SPDX-License-Identifier: BSD-3-Clause
// Transport: moves active messages between processes. Knows nothing of MPI. Bulk data: shm/shm.hpp inside a
// host, network.hpp between hosts. Threading: all calls are serialised by the caller (the instance lock).
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace weft::transport {

using Peer = uint32_t;  ///< a process of the job: its rank in MPI_COMM_WORLD

/// One piece of memory, here or in a peer's address space.
struct Piece {
  uint64_t address;
  size_t length;
};

/// Takes what a transport delivers.
class Receiver {
 public:
  /// `message` is 8-byte aligned and valid during the call only.
  virtual void deliver(Peer source, const std::byte* message, size_t size) = 0;
  /// The peer has died or cannot be reached any more: told once a peer, by networks only. Its fetches have
  /// ended with an error before.
  virtual void lost(Peer peer, const Error& why) = 0;

 protected:
  ~Receiver() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// The largest message that reserve() can take for this peer now, in bytes. May grow, never shrinks.
  [[nodiscard]] virtual size_t max_message(Peer peer) = 0;
  /// Room for one message of `size` bytes, 8-byte aligned, to be filled in place and sent by commit();
  /// nullptr: no room now, try again after poll(). One reservation at a time.
  [[nodiscard]] virtual std::byte* reserve(Peer peer, size_t size) = 0;
  /// Sends the first `size` bytes of the reserved room. Messages to one peer arrive in order.
  virtual void commit(Peer peer, size_t size) = 0;
  /// Delivers up to `limit` messages; returns how many.
  virtual size_t poll(Receiver& receiver, size_t limit) = 0;
};

}  // namespace weft::transport
