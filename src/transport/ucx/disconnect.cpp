// SPDX-License-Identifier: BSD-3-Clause
// The end of communication: disconnect notices, and closing so that the last messages arrive.
#include <algorithm>
#include <utility>

#include "transport/last_messages.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

namespace {

constexpr uint64_t kFlushTimeoutNs = 5 * kNsPerSecond, kCloseTimeoutNs = kNsPerSecond;

bool awaits_answer(const Connection& of, Peer job_size) {
  return of.peer < job_size && of.last_messages.outstanding();
}

}  // namespace

void Ucx::send_disconnect(Connection& connection) {
  if (connection.endpoint == nullptr || connection.state != Connection::State::open ||
      std::exchange(connection.disconnect_sent, true))
    return;
  SendBuffer* buffer = acquire_send_buffer(connection, 0);
  const uint32_t kind = job_for(connection.peer) << 1 | MessageHeader::kDisconnect;
  buffer->message = {connection.secret, self_, kind, connection.sent++};
  const int notice = (awaits_answer(connection, job_size_) ? kAwaitsAnswer : 0) | (leaving() ? kLeft : 0);
  buffer->data[0] = static_cast<std::byte>(notice);
  send(buffer, kMessageId, sizeof(MessageHeader), buffer->data, notice != 0 ? 1 : 0,
       RequestParameters::kEager, api::kHost);
}

/// Answers the disconnect notices that have arrived.
void Ucx::send_answers() {
  for (Connection* const to : std::exchange(unanswered_, {})) {
    if (to->disconnect_sent) continue;
    const bool left = std::exchange(to->left, false);  // it ends after the answer
    const bool connected = connect(*to);
    to->left = left;
    to->disconnected = true;  // if it has ended after its notice, this is no loss
    to->made_after_notice = false;
    if (!connected) continue;
    SendBuffer* buffer = acquire_send_buffer(*to, 0);
    buffer->answer = {to->secret, self_, to->delivered};
    send(buffer, kAnswerId, sizeof(AnswerHeader), nullptr, 0, RequestParameters::kEager, api::kHost);
  }
}

Code Ucx::on_answer(const AnswerHeader& answer, const Arrival&) {
  if (answer.source >= job_size_) return Code::ok;
  Connection& from = connection_of(static_cast<Peer>(answer.source));
  from.last_messages.received = std::max(from.last_messages.received, answer.received);
  return Code::ok;
}

void Ucx::send_disconnects() {
  if (worker_ == nullptr) return;
  for (const auto& connection : connections_) {
    if (!connection) continue;
    // A peer that has only sent waits for this notice, too. A process that leaves may look up no addresses.
    if (!leaving() && connection->peer < job_size_ && connection->delivered != 0 && !connection->disconnected)
      static_cast<void>(connect(*connection));
    send_disconnect(*connection);
  }
  RequestParameters operation{};
  void* request = api_.ucp_worker_flush_nbx(worker_, &operation);
  if (request == nullptr || api::is_error(request)) return;
  progress_until(
      time_to_finish(kFlushTimeoutNs), [&] { return progress(); },
      [&] { return api_.ucp_request_check_status(request) != Code::in_progress; });
  api_.ucp_request_free(request);
}

void Ucx::finish() {
  if (worker_ == nullptr) return;
  if (leaving())
    for (const auto& connection : connections_)
      if (connection) connection->disconnect_sent = false;  // an earlier notice was another one
  send_disconnects();
  Discard discard;
  closing_ = true;
  await_answers(
      time_to_finish(kLastMessagesTimeoutNs), connections_, [&] { return poll(discard, SIZE_MAX); },
      [&](const std::unique_ptr<Connection>& of) {
        return of && of->state == Connection::State::open && !of->disconnected &&
               awaits_answer(*of, job_size_);
      });
}

void Ucx::close() {
  if (worker_ != nullptr) {
    finish();
    std::vector<void*> requests;
    for (const auto& connection : connections_) {
      if (connection) release_pending_rts(*connection);
      if (!connection || connection->endpoint == nullptr) continue;
      RequestParameters operation{};
      void* request = api_.ucp_ep_close_nbx(std::exchange(connection->endpoint, nullptr), &operation);
      if (request != nullptr && !api::is_error(request)) requests.push_back(request);
    }
    progress_until(
        kCloseTimeoutNs, [&] { return progress(); },
        [&] {
          return std::all_of(requests.begin(), requests.end(), [&](void* request) {
            return api_.ucp_request_check_status(request) != Code::in_progress;
          });
        });
    for (void* request : requests) api_.ucp_request_free(request);
    api_.ucp_worker_destroy(std::exchange(worker_, nullptr));
  }
  if (context_ != nullptr) api_.ucp_cleanup(std::exchange(context_, nullptr));
  for (auto& free_buffers : free_buffers_) {
    for (SendBuffer* buffer : free_buffers) ::operator delete(buffer);
    free_buffers.clear();
  }
}

}  // namespace weft::transport::ucx
