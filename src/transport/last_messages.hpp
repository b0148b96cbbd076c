// SPDX-License-Identifier: BSD-3-Clause
// The last messages of a process over a network. A socket that is closed while it holds unread data, or to
// which data are sent afterwards, resets its connection: messages that have left the process, but have not
// arrived, are lost. So a process ends when each peer of its job has answered its disconnect notice with the
// number of messages that it has received, has sent a notice of its own (it needs nothing more), or is lost.
// A process answers a notice unless it has sent its own. Between jobs, MPI_Comm_disconnect waits for the
// peer.
#pragma once
#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
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

/// The messages to one peer, without notices and answers.
struct LastMessages {
  uint64_t end = 0;       ///< sequence number after the last one
  uint64_t received = 0;  ///< the peer has received all before this number
  [[nodiscard]] bool outstanding() const { return received < end; }
};

/// Calls step(), which returns the number of events, until done(); returns false after `time_ns`. Gives up
/// the core when there is no event.
template <class Step, class Done>
bool progress_until(uint64_t time_ns, Step&& step, Done&& done) {
  const uint64_t deadline = monotonic_ns() + time_ns;
  while (!done()) {
    if (monotonic_ns() > deadline) return false;
    if (step() == 0) ::sched_yield();
  }
  return true;
}

/// Calls step() until no connection is awaited(), or for `time_ns`. Reports that the process ends although a
/// peer has not answered: as a warning if that had time enough.
template <class Connections, class Step, class Awaited>
void await_answers(uint64_t time_ns, const Connections& connections, Step&& step, Awaited&& awaited) {
  auto waiting = connections.end();
  const bool answered = progress_until(time_ns, step, [&] {
    waiting = std::find_if(connections.begin(), connections.end(), awaited);
    return waiting == connections.end();
  });
  if (!answered)
    log::write(
        time_ns < kLastMessagesTimeoutNs ? log::Level::info : log::Level::warn,
        "process %u has received no messages for %.1f s: this process ends, and its last messages to that "
        "process may be lost",
        (*waiting)->peer, static_cast<double>(time_ns) * 1e-9);
}

}  // namespace weft::transport
