// SPDX-License-Identifier: BSD-3-Clause
// Traffic: messages of this process so far, and with which processes. Threading: under the instance lock.
#pragma once
#include <cstdint>

namespace weft::p2p {

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

}  // namespace weft::p2p
