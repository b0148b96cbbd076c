// SPDX-License-Identifier: BSD-3-Clause
// The last messages of a process over a network. A socket that is closed while it holds unread data, or to
// which data are sent afterwards, resets its connection: messages that have left the process, but have not
// arrived, are lost. So a process ends when each peer of its job has answered its disconnect notice with the
// number of messages that it has received, has sent a notice of its own (it needs nothing more), or is lost.
// A process answers a notice unless it has sent its own. Between jobs, MPI_Comm_disconnect waits for the
// peer.
#pragma once
#include <cstdint>

#include "base/log.hpp"
#include "transport/transport.hpp"

namespace weft::transport {

/// How long a network waits for the answers in nanoseconds.
inline constexpr uint64_t kLastMessagesTimeoutNs = 60'000'000'000;

/// Drops the messages that arrive while a network closes.
class Discard final : public Receiver {
 public:
  void deliver(Peer, const std::byte*, size_t) override {}
  void lost(Peer, const Error&) override {}
};

/// Warns that the process ends although the peer has not answered.
inline void log_unanswered(Peer peer) {
  log::write(log::Level::warn,
             "process %u has received no messages for %d s: this process ends, and its last messages to that "
             "process may be lost",
             peer, static_cast<int>(kLastMessagesTimeoutNs / 1'000'000'000));
}

}  // namespace weft::transport
