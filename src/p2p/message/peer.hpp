// SPDX-License-Identifier: BSD-3-Clause
// Peer: the state of point-to-point communication with one other process. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "core/request_table.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/ready_to_receive.hpp"
#include "transport/shm/shm.hpp"
#include "transport/transport.hpp"

namespace weft::p2p {

class Transfer;

/// A message waiting for capacity in the transport.
struct PendingMessage {
  Transfer* transfer;  ///< an eager send; null: a control message
  size_t size = 0;
  uint64_t registration = 0;  ///< id of the registered buffer whose rkey the message carries; 0: none
  alignas(8) std::byte control[kMaxControl];
};

/// Returns the source and tag of a key as one word.
[[nodiscard]] inline uint64_t envelope_of(const match::Key& key) {
  return static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32 | static_cast<uint32_t>(key.tag);
}

/// Returns the RTR slot of receives of a key.
[[nodiscard]] inline uint32_t rtr_slot_of(const match::Key& key) {
  const uint64_t mixed = (key.context ^ envelope_of(key) * 0x9e3779b97f4a7c15ULL) * 0xc2b2ae3d27d4eb4fULL;
  return static_cast<uint32_t>(mixed >> 32) % kRtrSlots;
}

/// Value of Peer::sent when the last message of each hash of match keys was sent.
using LastSent = std::array<uint64_t, kRtrSlots>;

/// Attempts to put messages that have failed one after the other.
struct PutMisses {
  uint32_t rtr = 0;         ///< waits for an RTR that timed out
  uint32_t advertised = 0;  ///< advertised receives that the peer did not use
};

struct Peer {
  /// Returns whether messages to the peer wait for capacity; all later ones then wait behind them.
  [[nodiscard]] bool blocked() const { return pending != nullptr; }

  transport::Transport* transport = nullptr;   ///< null: this process itself
  transport::shm::RingWriter* ring = nullptr;  ///< of `transport`, once found open by Outgoing::commit
  bool initialised = false;                    ///< set by Sparse at first use
  bool remote = false;                         ///< on another host: `transport` is the network
  bool unreached = false;                      ///< `remote`, and no message is known to have left yet
  bool lost = false;                           ///< has failed, or was forgotten: nothing is sent to it
  core::RequestTable::PeerList requests;       ///< in flight with the peer; posted receives are not listed
  uint64_t eager_max = 0;                      ///< largest eager payload in bytes, as last computed
  uint64_t eager_break_even =
      UINT64_MAX;                 ///< upper bound of eager_max, from measured copies (outgoing_eager.cpp)
  uint64_t copy_ns = UINT64_MAX;  ///< fastest timed copy to the peer, scaled to 8 KiB
  uint32_t copies_timed = 0;
  uint64_t eager_sent = 0, eager_credited = 0;  ///< charged bytes sent to the peer, and credited back by it
  uint64_t consumed = 0, reported = 0;          ///< charged bytes received from the peer, and credited to it
  uint8_t copy_misses = 0;  ///< consecutive copies offered to the peer of which it has copied nothing
  uint8_t copy_pause = 0;   ///< copies that are not offered before the next attempt
  std::unique_ptr<std::deque<PendingMessage>> pending;
  bool in_backlog = false;  ///< listed in Outgoing::backlog_
  // Messages subject to matching, sent to the peer and received from it. `last_sent` is null until the first
  // put attempt (put.cpp).
  uint64_t sent = 0, arrived = 0;
  uint64_t sent_bytes = 0, arrived_bytes = 0;  ///< of these messages and of puts
  LastSent* last_sent = nullptr;
  uint64_t puts = 0, puts_arrived = 0;  ///< messages put into advertised receives
  bool reply_due = false;  ///< the peer's last device message was received and nothing was sent since
  bool unmapped = true;    ///< its last device message came through a bounce buffer, or none has come
  std::array<PutMisses, 2> put_misses;  ///< of messages for the resident kernel and for copy engines
};

}  // namespace weft::p2p
