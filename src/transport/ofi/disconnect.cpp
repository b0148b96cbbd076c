// SPDX-License-Identifier: BSD-3-Clause
// The end of communication: disconnect notices, and closing so that the last messages arrive.
#include <algorithm>
#include <ctime>
#include <utility>

#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

constexpr time_t kTimeoutSeconds = 2;

/// Drops the messages that arrive while the network closes.
class Discard final : public Receiver {
  void deliver(Peer, const std::byte*, size_t) override {}
  void lost(Peer, const Error&) override {}
};

}  // namespace

void Ofi::send_disconnect(Connection& to) {
  if (to.state != Connection::State::open || to.disconnect_sent || to.address == abi::kNoAddress) return;
  to.disconnect_sent = send_notice(to, kDisconnect);
}

/// Returns false if no buffer is free.
bool Ofi::send_notice(Connection& to, uint64_t flag) {
  if (reserve(to.peer, 0) == nullptr) return false;
  enqueue(to, *std::exchange(reserved_, nullptr), 0, flag);
  return true;
}

/// Answers the disconnect notices that have arrived, unless this process has sent its own: see
/// await_answers().
void Ofi::send_answers() {
  std::erase_if(unanswered_, [&](Connection* to) {
    return to->disconnect_sent || !connect(*to) || send_notice(*to, kAnswer);
  });
}

/// Makes progress until done() or for kTimeoutSeconds. `receiver` as for drain_completions().
template <class Done>
void Ofi::progress_until(Receiver* receiver, Done&& done) {
  const time_t deadline = ::time(nullptr) + kTimeoutSeconds;
  while (!done() && ::time(nullptr) <= deadline) {
    flush();
    drain_completions(receiver, SIZE_MAX);
    send_answers();
  }
}

/// Notifies all peers, including peers that have only sent to this process: its exit is then no failure to
/// them. Earlier sends have left once the notices have left.
void Ofi::send_disconnects() {
  if (directory_ == nullptr || endpoint_ == nullptr) return;
  for (Connection* to : connections_)
    if (to->state == Connection::State::unknown) static_cast<void>(connect(*to));
  progress_until(nullptr, [&] {
    for (Connection* to : connections_) send_disconnect(*to);  // again where no buffer was free
    return idle();
  });
}

/// Waits until every peer of the own job has received all messages, or needs none of them since it has sent a
/// notice of its own. Otherwise a socket may hold unread data when it is closed, as a heartbeat: it then
/// resets its connection, and messages that have left this process, but have not arrived, are lost. Between
/// jobs MPI_Comm_disconnect has waited for the peer.
void Ofi::await_answers() {
  Discard discard;
  deliver_stored(discard);
  const auto awaited = [&](const Connection* of) {
    return of->peer < job_size_ && of->state == Connection::State::open && !of->answered;
  };
  progress_until(&discard,
                 [&] { return idle() && std::none_of(connections_.begin(), connections_.end(), awaited); });
}

void Ofi::close() {
  if (endpoint_ == nullptr) return;
  send_disconnects();
  await_answers();
  endpoint_->shut();
  waiting_.clear();
  for (Get* get : std::exchange(gets_, {})) get_slab_.destroy(get);
  remote_registrations_.clear();
  writable_registrations_.clear();
  local_registrations_.clear();
  sends_.deregister();
  receives_.deregister();
  heartbeat_region_.reset();
  endpoint_.reset();
}

}  // namespace weft::transport::ofi
