// SPDX-License-Identifier: BSD-3-Clause
// Transport: moves active messages and bulk data between processes. Knows nothing of MPI.
// Threading: all calls are serialised by the caller (the instance lock).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace weft::transport {

using Peer = uint32_t;  ///< index into the job's process table

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

  /// Whether get() works for this peer. Proved by moving bytes at the first call; the reason when it does
  /// not.
  [[nodiscard]] virtual Status can_get(Peer peer) = 0;
  /// Copies the peer's memory `remote` into `local` (equal total lengths), at once. Errc::buffer: some of
  /// that memory cannot be read this way (device or protected memory); the caller falls back by name.
  [[nodiscard]] virtual Status get(Peer peer, std::span<const Piece> local,
                                   std::span<const Piece> remote) = 0;
};

}  // namespace weft::transport
