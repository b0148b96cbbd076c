// SPDX-License-Identifier: BSD-3-Clause
// LateDelivery: holds the messages of a peer back for random times, so that those of different peers arrive
// in an order that is rare otherwise. For tests (net.late_messages_us). Threading: as transport.hpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <unordered_map>
#include <vector>

#include "transport/transport.hpp"

namespace weft::transport::am {

class LateDelivery final : public Receiver {
 public:
  /// `next`: gets the messages of each peer in their order. `longest_ns`: for which a peer is held back.
  LateDelivery(Receiver& next, uint64_t longest_ns, uint64_t seed)
      : next_(next), longest_ns_(longest_ns), random_(seed) {}
  /// Delivers the messages that are due at the time `now_ns`. Returns whether there was one.
  bool deliver_due(uint64_t now_ns);
  /// Delivers the messages of a peer, in their order, at once.
  void deliver_all_of(Peer peer);
  /// The same of all peers.
  void deliver_all() { deliver_due(UINT64_MAX); }
  /// Drops the messages of a process that is no longer known.
  void forget(Peer peer) { held_.erase(peer); }

  void deliver(Peer source, const std::byte* message, size_t size) override;
  void lost(Peer peer, const Error& why) override;
  void left(Peer peer) override;
  Peer find(uint32_t job_tag, uint32_t rank) override { return next_.find(job_tag, rank); }
  [[nodiscard]] bool unknown_source(Peer known, const std::byte* message, size_t size) override {
    return next_.unknown_source(known, message, size);
  }

 private:
  struct Held {
    uint64_t due_ns;
    std::deque<std::vector<std::byte>> messages;
  };
  Receiver& next_;
  const uint64_t longest_ns_;
  std::mt19937_64 random_;
  std::unordered_map<Peer, Held> held_;
};

}  // namespace weft::transport::am
