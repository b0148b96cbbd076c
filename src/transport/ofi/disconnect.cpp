// SPDX-License-Identifier: BSD-3-Clause
// The end of communication: disconnect notices, and closing so that the last messages arrive.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/last_messages.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

constexpr uint64_t kFlushTimeoutNs = 2'000'000'000;

bool awaits_answer(const Connection& of, Peer job_size) {
  return of.peer < job_size && of.last_messages.outstanding();
}

}  // namespace

void Ofi::send_disconnect(Connection& to) {
  if (to.state != Connection::State::open || to.disconnect_sent || to.pairs.empty()) return;
  const size_t size = awaits_answer(to, job_size_) ? 1 : 0;
  std::byte* content = reserve(to.peer, size);
  if (content == nullptr) return;
  std::memset(content, 0, size);
  to.disconnect_sent = true;
  enqueue(to, *std::exchange(reserved_, nullptr), size, leaving() ? kDisconnect | kLeft : kDisconnect);
}

/// Answers the disconnect notices that have arrived. An answer is never in the backlog, so idle() does not
/// wait for a process that has died before its answer.
void Ofi::send_answers() {
  const auto sent = [&](Connection& to) {
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
  };
  std::erase_if(unanswered_, [&](Connection* to) {
    return to->disconnect_sent || monotonic_ns() > to->answer_deadline || !connect(*to) || sent(*to);
  });
}

/// Notifies all peers, including peers that have only sent to this process: its exit is then no failure to
/// them. A process that leaves may look up no addresses any more. Earlier sends have left once the notices
/// have left.
void Ofi::send_disconnects() {
  if (directory_ == nullptr || endpoint_ == nullptr) return;
  for (Connection* to : connections_)
    if (!leaving() && to->state == Connection::State::unknown) static_cast<void>(connect(*to));
  progress_until(
      time_to_finish(kFlushTimeoutNs),
      [&] {
        if (closing_ != nullptr) check_peers();  // else their notices may be among the stored messages
        return progress(closing_, SIZE_MAX);
      },
      [&] {
        for (Connection* to : connections_)
          send_disconnect(*to);  // again where too many sends were outstanding
        return idle();
      });
}

void Ofi::finish() {
  if (endpoint_ == nullptr) return;
  Discard discard;
  closing_ = &discard;
  if (leaving())
    for (Connection* of : connections_) of->disconnect_sent = false;  // an earlier notice was another one
  send_disconnects();
  const auto step = [&] {
    check_peers();
    return progress(closing_, SIZE_MAX);
  };
  await_answers(time_to_finish(kLastMessagesTimeoutNs), connections_, step, [&](const Connection* of) {
    return of->state == Connection::State::open && awaits_answer(*of, job_size_);
  });
  progress_until(time_to_finish(kFlushTimeoutNs), step, [&] { return idle(); });  // the own answers
  closing_ = nullptr;
}

void Ofi::close() {
  if (endpoint_ == nullptr) return;
  finish();
  adapters_.shut();
  for (Connection* of : std::exchange(waiting_, {})) of->waiting.clear();
  for (Get* get : std::exchange(gets_, {})) get_slab_.destroy(get);
  remote_registrations_.clear();
  writable_registrations_.clear();
  local_registrations_.clear();
  sends_.deregister();
  receives_.deregister();
  endpoint_ = nullptr;
  adapters_.close();
}

}  // namespace weft::transport::ofi
