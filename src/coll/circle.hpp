// SPDX-License-Identifier: BSD-3-Clause
// Circle: small blocking exchanges among some processes of a communicator, for building communicators.
// Byte messages on the collective channel, all under one tag; the members must call alike.
#pragma once
#include <cstddef>
#include <vector>

#include "core/communicator.hpp"

namespace weft::coll {

/// Collective operations use the tags from 0 (Communicator::next_collective_tag, next_nonblocking_tag),
/// persistent ones kPersistentTags tags below the wildcards; calls in which only some processes of a
/// communicator take part must not count along and use the tags below those. `user_tag`: 0 to 2^30 - 1.
inline constexpr int kPersistentTags = 1 << 29;
[[nodiscard]] constexpr int partial_tag(int user_tag) {
  return -3 - kPersistentTags - (user_tag & 0x3fffffff);
}

class Circle {
 public:
  /// All processes of `comm` (an intracommunicator).
  Circle(core::Communicator& comm, int tag);
  /// The processes of `members`, a subset of the group of `comm` that includes this process.
  Circle(core::Communicator& comm, const core::Group& members, int tag);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Member `root`'s bytes to all, by a binomial tree.
  [[nodiscard]] Status broadcast(void* data, size_t bytes, int root = 0) const;
  /// Fills `records`, size() * bytes long, where this process has written only its own, in member order.
  /// Bruck's algorithm: ceil(log2(size)) rounds.
  [[nodiscard]] Status gather_all(void* records, size_t bytes) const;

 private:
  [[nodiscard]] int peer(int member) const;
  core::Communicator& comm_;
  const core::Group* members_;  // null: all
  int tag_, rank_, size_;
};

/// One blocking message on the collective channel. `peer`: a rank as sends on `comm` name it.
[[nodiscard]] Status send_bytes(core::Communicator& comm, const void* data, size_t bytes, int peer, int tag);
[[nodiscard]] Status receive_bytes(core::Communicator& comm, void* data, size_t bytes, int peer, int tag);
/// Both at once, without waiting for one another.
[[nodiscard]] Status swap_bytes(core::Communicator& comm, const void* out, size_t out_bytes, int to, void* in,
                                size_t in_bytes, int from, int tag);

}  // namespace weft::coll
