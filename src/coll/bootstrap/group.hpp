// SPDX-License-Identifier: BSD-3-Clause
// BootstrapGroup: small blocking collectives among some processes of a communicator, for the construction of
// communicators. Byte messages with one tag on the collective channel; all members make the same calls.
#pragma once
#include <cstddef>
#include <vector>

#include "core/communicator.hpp"

namespace weft::coll {

/// Collective operations use tags from 0 up (Communicator::next_collective_tag, next_nonblocking_tag);
/// persistent operations use the kPersistentTags tags below the wildcards. Calls of a subset of a
/// communicator cannot advance those counters and use the tags below. `user_tag`: 0 to 2^30 - 1.
inline constexpr int kPersistentTags = 1 << 29;
[[nodiscard]] constexpr int partial_tag(int user_tag) {
  return -3 - kPersistentTags - (user_tag & 0x3fffffff);
}

class BootstrapGroup {
 public:
  /// All processes of `comm` (an intracommunicator).
  BootstrapGroup(core::Communicator& comm, int tag);
  /// The processes of `members`, a subset of the group of `comm` that includes this process.
  BootstrapGroup(core::Communicator& comm, const core::Group& members, int tag);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Broadcasts `bytes` bytes of member `root` along a binomial tree.
  [[nodiscard]] Status broadcast(void* data, size_t bytes, int root = 0) const;
  /// The same of a step that only the root takes: after its error `mine`, which is significant at the root,
  /// all members return an error of its class.
  [[nodiscard]] Status share(Status mine, void* data, size_t bytes, int root = 0) const;
  /// Gathers the record of every member, in member order, to `records` (size() * bytes), which holds this
  /// process's own record on entry. Bruck's algorithm: ceil(log2(size)) rounds.
  [[nodiscard]] Status allgather(void* records, size_t bytes) const;

 private:
  [[nodiscard]] int peer(int member) const;
  core::Communicator& comm_;
  const core::Group* members_;  // null: all
  int tag_, rank_, size_;
};

/// One blocking message on the collective channel. `peer`: rank in `comm`, or in its remote group.
[[nodiscard]] Status send_bytes(core::Communicator& comm, const void* data, size_t bytes, int peer, int tag);
[[nodiscard]] Status receive_bytes(core::Communicator& comm, void* data, size_t bytes, int peer, int tag);
/// Sends and receives concurrently.
[[nodiscard]] Status sendrecv_bytes(core::Communicator& comm, const void* out, size_t out_bytes, int to,
                                    void* in, size_t in_bytes, int from, int tag);

}  // namespace weft::coll
