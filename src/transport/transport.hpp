// SPDX-License-Identifier: BSD-3-Clause
// Transport: moves active messages between processes. Knows nothing of MPI. Bulk data: shm/shm.hpp inside a
// host, network.hpp between hosts. Threading: all calls are serialised by the caller (the instance lock).
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace weft::transport {

/// A process by its index in the process table; for processes of the own job the rank in MPI_COMM_WORLD.
/// Per-peer state grows when an index is used for the first time.
using Peer = uint32_t;
inline constexpr Peer kNoPeer = UINT32_MAX;

/// A contiguous memory range in this process or in a peer's address space.
struct Iov {
  uint64_t address;
  size_t length;
};

/// Receives the messages and peer failures that a transport reports.
class Receiver {
 public:
  /// `message` is 8-byte aligned and valid during the call only.
  virtual void deliver(Peer source, const std::byte* message, size_t size) = 0;
  /// Reports once that the peer has died or is unreachable; called by networks only. All gets from this peer
  /// have completed with an error before.
  virtual void lost(Peer peer, const Error& why) = 0;
  /// The peer has left its job (Network::leave), after all its messages that were delivered. Called like
  /// deliver(), by networks only.
  virtual void left(Peer /*peer*/) {}
  /// Returns the process of that rank in the connected job with that tag (JobId::tag); kNoPeer: not known.
  [[nodiscard]] virtual Peer find(uint32_t /*job_tag*/, uint32_t /*rank*/) { return kNoPeer; }
  /// A message of a process of another job that find() does not know, under the same rules as deliver(). A
  /// network also passes the first messages of a newer connection of a `known` process. Returns true if the
  /// connection to the known process begins with this message: the network then delivers it.
  [[nodiscard]] virtual bool unknown_source(Peer /*known*/, const std::byte* /*message*/, size_t /*size*/) {
    return false;
  }

 protected:
  ~Receiver() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Returns the largest size that reserve() accepts for this peer, in bytes. May grow, never shrinks.
  [[nodiscard]] virtual size_t max_message(Peer peer) = 0;
  /// Returns an 8-byte aligned buffer for one message of `size` bytes, to be filled in place and sent by
  /// commit(); nullptr: no capacity, retry after poll(). One reservation at a time.
  [[nodiscard]] virtual std::byte* reserve(Peer peer, size_t size) = 0;
  /// Sends the first `size` bytes of the reservation. Messages to one peer arrive in order.
  virtual void commit(Peer peer, size_t size) = 0;
  /// Delivers up to `limit` messages; returns their number.
  virtual size_t poll(Receiver& receiver, size_t limit) = 0;
  /// Returns whether all committed messages to the peer, if any, have left this process or are dropped.
  /// `peer` kNoPeer: to all.
  [[nodiscard]] virtual bool left(Peer /*peer*/) const { return true; }
};

}  // namespace weft::transport
