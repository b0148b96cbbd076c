// SPDX-License-Identifier: BSD-3-Clause
// Traffic: messages of this process so far, for tools. Sums over the peers, whose state counts for each
// message anyway. Threading: under the instance lock.
#pragma once
#include <cstdint>

namespace weft::p2p {

class Engine;
struct Peer;

/// Messages subject to matching, those of collectives included.
struct Traffic {
  uint64_t sent = 0, sent_bytes = 0, received = 0, received_bytes = 0;
  Traffic& operator+=(const Traffic& other) {
    sent += other.sent;
    sent_bytes += other.sent_bytes;
    received += other.received;
    received_bytes += other.received_bytes;
    return *this;
  }
};

/// With which processes: this one, others of its host, those of other hosts.
enum class Distance : uint8_t { self, host, network };
inline constexpr int kDistances = 3;

/// With one process. A message counts as received when it arrives, also before its receive is posted.
[[nodiscard]] Traffic traffic_with(const Peer& peer);
/// With all processes of that distance.
[[nodiscard]] Traffic traffic(const Engine& engine, Distance distance);
[[nodiscard]] Traffic traffic(const Engine& engine);
/// Messages sent from host memory to other processes, and from managed memory without GPU protocols. Only
/// `sent` and `sent_bytes` are set.
[[nodiscard]] Traffic traffic_from_host(const Engine& engine);
/// Messages that have arrived after their receive was posted.
[[nodiscard]] uint64_t matched_on_arrival(const Engine& engine);

}  // namespace weft::p2p
