// SPDX-License-Identifier: BSD-3-Clause
// The end of communication: disconnect notices, and closing so that the last messages arrive.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "transport/last_messages.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

constexpr uint64_t kFlushTimeoutNs = 2'000'000'000;

}  // namespace

void Ofi::send_disconnect(Connection& to) {
  if (to.state != Connection::State::open || to.disconnect_sent || to.address == abi::kNoAddress) return;
  const bool awaits_answer = to.confirmed < to.sent_to_receive;
  std::byte* content = reserve(to.peer, awaits_answer ? 1 : 0);
  if (content == nullptr) return;
  if (awaits_answer) *content = std::byte{1};
  to.disconnect_sent = true;
  enqueue(to, *std::exchange(reserved_, nullptr), awaits_answer ? 1 : 0, kDisconnect);
}

/// Answers the disconnect notices that have arrived. An answer is never in the backlog, so idle() does not
/// wait for a process that has died before its answer.
void Ofi::send_answers() {
  std::erase_if(unanswered_, [&](Connection* to) {
    return to->disconnect_sent || monotonic_ns() > to->answer_deadline || !connect(*to) || send_answer(*to);
  });
}

/// Returns false if the answer cannot be sent now.
bool Ofi::send_answer(Connection& to) {
  MessageBuffer* const answer = to.unsent.empty() ? sends_.acquire() : nullptr;
  if (answer == nullptr) return false;
  std::memcpy(answer->data + kPrefix, &to.received, sizeof to.received);
  prepare(to, *answer, sizeof to.received, kAnswer);
  if (!try_send(to, *answer)) {
    sends_.release(answer);
    return false;
  }
  ++to.sent;
  return true;
}

/// Makes progress until done(); returns false after `time_ns`. `receiver` as for progress().
template <class Done>
bool Ofi::progress_until(Receiver* receiver, uint64_t time_ns, Done&& done) {
  const uint64_t deadline = monotonic_ns() + time_ns;
  while (!done()) {
    if (monotonic_ns() > deadline) return false;
    if (progress(receiver, SIZE_MAX) == 0) ::sched_yield();
  }
  return true;
}

/// Notifies all peers, including peers that have only sent to this process: its exit is then no failure to
/// them. Earlier sends have left once the notices have left.
void Ofi::send_disconnects() {
  if (directory_ == nullptr || endpoint_ == nullptr) return;
  for (Connection* to : connections_)
    if (to->state == Connection::State::unknown) static_cast<void>(connect(*to));
  progress_until(nullptr, kFlushTimeoutNs, [&] {
    for (Connection* to : connections_) send_disconnect(*to);  // again where no buffer was free
    return idle();
  });
}

/// Waits until the last messages have arrived, and the own answers have left.
void Ofi::await_answers() {
  Discard discard;
  const auto awaited = [&](const Connection* of) {
    return of->peer < job_size_ && of->state == Connection::State::open &&
           of->confirmed < of->sent_to_receive;
  };
  const bool received = progress_until(&discard, kLastMessagesTimeoutNs, [&] {
    check_peers();
    return std::none_of(connections_.begin(), connections_.end(), awaited);
  });
  if (!received) log_unanswered((*std::find_if(connections_.begin(), connections_.end(), awaited))->peer);
  progress_until(&discard, kFlushTimeoutNs, [&] { return idle(); });
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
