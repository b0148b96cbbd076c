// SPDX-License-Identifier: BSD-3-Clause
// ReadyToReceive: receives that a rank advertises in its permanent region of shared memory. Valid when
// zeroed.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/shm.hpp"

namespace weft::p2p {

inline constexpr size_t kRtrSlots = 32;  ///< advertised receives per rank, indexed by a hash of the match key

/// A posted receive advertised to the only rank that can match it (ready to receive, RTR): the sender may
/// write into its buffer. The receiver fills in all words and then sets `open`; the sender claims the RTR by
/// a compare-and-swap of `state`, and the receiver retracts it likewise. From `claimed` to `written` or
/// `failed` the sender owns the entry. `number` grows with each advertisement.
struct ReadyToReceive {
  /// open: for senders that have mapped the receive buffer. bounce: no peer can map it; senders write to a
  /// bounce buffer of the receiver. either: senders choose. declined: the sender does neither, and its
  /// message comes by an RTS.
  enum Phase : uint64_t { idle, open, claimed, written, failed, bounce, declined, either };
  static constexpr unsigned kPhaseBits = 3;
  static constexpr size_t kLine = transport::shm::kCacheLine;
  alignas(kLine) std::atomic<uint64_t> state;  ///< number << kPhaseBits | Phase
  std::atomic<uint64_t> context, envelope;     ///< match key; envelope: source << 32 | tag
  std::atomic<uint64_t> seen;                  ///< messages from that source seen by the receiver
  std::atomic<uint64_t> address;               ///< of the buffer, in the receiver
  std::atomic<uint64_t> bytes;                 ///< capacity; once claimed: size of the message
  std::atomic<uint64_t> base, buffer_id;       ///< of its allocation
  // Only with a bounce buffer:
  struct BounceTarget {
    std::atomic<uint64_t> address, base, buffer_id;  ///< as those of the receive buffer
    std::atomic<uint64_t> flag;                      ///< address of the word after the data, set to `epoch`
    std::atomic<uint64_t> epoch;
    std::atomic<uint64_t> incoming_bytes;  ///< nonzero once the copy into the bounce buffer has started
    std::atomic<uint64_t> wants_region;  ///< 1: the sender would map the receive buffer, but lacks its region
  };
  alignas(kLine) BounceTarget bounce_target;
  [[nodiscard]] static constexpr Phase phase_of(uint64_t state) {
    return static_cast<Phase>(state & ((1u << kPhaseBits) - 1));
  }
  [[nodiscard]] static constexpr uint64_t with_phase(uint64_t state, Phase phase) {
    return (state >> kPhaseBits << kPhaseBits) | phase;
  }
};
static_assert(sizeof(ReadyToReceive) == 2 * ReadyToReceive::kLine);

struct RtrSlots {
  ReadyToReceive slots[kRtrSlots];
};

/// `slot`: below kRtrSlots.
[[nodiscard]] inline ReadyToReceive& rtr_slot(const transport::shm::Shm& shm, transport::Peer peer,
                                              uint32_t slot) {
  return shm.permanent_region<RtrSlots>(peer).slots[slot];
}

}  // namespace weft::p2p
