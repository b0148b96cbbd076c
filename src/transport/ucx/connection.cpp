// SPDX-License-Identifier: BSD-3-Clause
// Endpoints: created at the first use of a peer, closed after errors.
#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

namespace {

constexpr uint64_t kFailureTimeoutNs = 2 * kNsPerSecond, kNoticeTimeoutNs = kNsPerSecond;

}  // namespace

Connection& Ucx::connection_of(Peer peer) {
  if (peer >= connections_.size()) [[unlikely]]
    connections_.resize(peer + 1);
  auto& connection = connections_[peer];
  if (!connection) {
    connection = std::make_unique<Connection>();
    connection->owner = this;
    connection->peer = peer;
    if (peer >= job_size_) connection->sent = generations_.next();
  }
  return *connection;
}

/// Returns false if the peer is lost or its loss will be reported.
bool Ucx::connect(Connection& connection) {
  if (connection.endpoint != nullptr) [[likely]]
    return true;
  if (connection.left || connection.state == Connection::State::failing ||
      connection.state == Connection::State::lost)
    return false;
  Status opened = open_endpoint(connection);
  if (opened) return true;
  connection.disconnected = false;
  fail(connection, opened.error().message());
  return false;
}

Status Ucx::open_endpoint(Connection& connection) {
  auto published = directory_->address(connection.peer);
  if (!published) return std::move(published).error();
  auto parts = split_secret(*published);
  if (!parts) return std::move(parts).error();
  connection.secret = parts->first;
  api::EndpointParameters parameters{};
  parameters.mask = api::EndpointParameters::kAddress | api::EndpointParameters::kErrorMode |
                    api::EndpointParameters::kErrorHandler;
  parameters.address = parts->second.data();
  parameters.error_mode = peer_errors_ ? api::kPeerErrors : api::kNoErrors;
  parameters.on_error = on_error;
  parameters.argument = &connection;
  Code code = api_.ucp_ep_create(worker_, &parameters, &connection.endpoint);
  if (code != Code::ok && peer_errors_ && !transports_report_failures()) {
    log::write(
        log::Level::warn,
        "the UCX transports in use (UCX_TLS?) do not report the failure of a peer: ranks may wait for it "
        "for ever");
    peer_errors_ = false;
    parameters.error_mode = api::kNoErrors;
    code = api_.ucp_ep_create(worker_, &parameters, &connection.endpoint);
  }
  if (code != Code::ok) {
    connection.endpoint = nullptr;
    return failure("ucp_ep_create", code);
  }
  connection.state = Connection::State::open;
  connection.rendezvous_completed = false;
  connection.made_after_notice = connection.disconnected;
  return {};
}

/// Whether an endpoint to the own worker can have error handling. A failure to create one to a peer does not
/// tell: UCX gives the same error for transports without error handling and for a peer that has just ended.
bool Ucx::transports_report_failures() {
  if (reports_failures_) return true;
  auto own = split_secret(address_);
  if (!own) return false;
  api::EndpointParameters parameters{};
  parameters.mask = api::EndpointParameters::kAddress | api::EndpointParameters::kErrorMode |
                    api::EndpointParameters::kErrorHandler;
  parameters.address = own->second.data();
  parameters.error_mode = api::kPeerErrors;
  parameters.on_error = [](void*, api::Endpoint, Code) {};
  api::Endpoint endpoint = nullptr;
  if (api_.ucp_ep_create(worker_, &parameters, &endpoint) != Code::ok) return false;
  close(endpoint, true);
  return reports_failures_ = true;
}

void Ucx::on_error(void* argument, api::Endpoint, Code status) {
  auto& connection = *static_cast<Connection*>(argument);
  connection.owner->fail(connection, connection.owner->api_.ucs_status_string(status));
}

/// Marks the connection as failing; finish_failure() follows in poll(), outside of UCX callbacks.
void Ucx::fail(Connection& connection, std::string reason) {
  if (connection.state == Connection::State::failing || connection.state == Connection::State::lost) return;
  connection.state = Connection::State::failing;
  connection.reason = std::move(reason);
  connection.deadline = monotonic_ns() + kFailureTimeoutNs;
  failing_.push_back(&connection);
}

void Ucx::close_endpoint(Connection& connection) {
  if (connection.endpoint != nullptr) close(std::exchange(connection.endpoint, nullptr), peer_errors_);
}

/// By force only with error handling: UCX leaves it undefined without.
void Ucx::close(api::Endpoint endpoint, bool by_force) {
  RequestParameters operation{};
  operation.mask = RequestParameters::kFlags;
  operation.flags = by_force ? RequestParameters::kForce : 0;
  void* request = api_.ucp_ep_close_nbx(endpoint, &operation);
  if (request != nullptr && !api::is_error(request)) api_.ucp_request_free(request);
}

/// Completes the gets of a failing connection with an error (gets held by UCX complete in UCX or at the
/// deadline), then reports the peer as lost, unless it has sent a disconnect notice over this connection.
void Ucx::finish_failure(Connection& connection, Receiver& receiver) {
  close_endpoint(connection);
  release_pending_rts(connection);
  const bool late = monotonic_ns() > connection.deadline;
  std::vector<Operation*> unfinished;
  for (const auto& [id, get] : operations_)
    if (get->connection == &connection && (!get->receiving || late)) unfinished.push_back(get.get());
  for (Operation* get : unfinished) {
    if (get->receiving) operations_[get->id].release();  // UCX still refers to it
    complete(*get, Error(Errc::proc_aborted, connection.reason));
  }
  if (connection.operations != 0) return;
  std::erase(failing_, &connection);
  std::erase_if(registrations_,
                [&](const auto& registration) { return registration.second.peer == connection.peer; });
  if (connection.disconnected && !connection.made_after_notice) {
    connection.state = Connection::State::unconnected;
    return;
  }
  connection.state = Connection::State::lost;
  receiver.lost(connection.peer, Error(Errc::proc_aborted, connection.reason));
}

Connection* Ucx::source_in_other_job(uint32_t job, uint32_t rank) {
  const Peer peer = owner_ != nullptr ? owner_->find(job, rank) : kNoPeer;
  return peer != kNoPeer ? &connection_of(peer) : nullptr;
}

/// Returns whether the endpoint may be closed: the own messages have left, and the peer has sent its notice.
/// The removal of a connection whose peer had closed its endpoint first has hung. The notice also keeps the
/// peer from reporting the close as a failure.
bool Ucx::messages_ended(Connection& connection) {
  if (connection.state == Connection::State::open) {
    send_disconnect(connection);
    release_pending_rts(connection);
    connection.state = Connection::State::lost;  // errors are ignored from now on
    connection.deadline = monotonic_ns() + kNoticeTimeoutNs;
    RequestParameters operation{};
    void* request = api_.ucp_ep_flush_nbx(connection.endpoint, &operation);
    connection.flush = request != nullptr && !api::is_error(request) ? request : nullptr;
  }
  const bool flushed =
      connection.flush == nullptr || api_.ucp_request_check_status(connection.flush) != Code::in_progress;
  // A peer from which no message has arrived may not know this process.
  const bool notified = connection.disconnected || connection.delivered == 0;
  if ((!flushed || !notified) && monotonic_ns() < connection.deadline) return false;
  if (connection.flush != nullptr) api_.ucp_request_free(std::exchange(connection.flush, nullptr));
  return true;
}

bool Ucx::remove(Peer peer) {
  if (peer >= connections_.size() || !connections_[peer]) return true;
  Connection& connection = *connections_[peer];
  if (connection.state == Connection::State::failing || connection.operations != 0) return false;
  if (connection.endpoint != nullptr) {
    if (!messages_ended(connection)) return false;
    close_endpoint(connection);
  }
  if (connection.send_buffers != 0) return false;
  std::erase(ready_, &connection);
  std::erase_if(registrations_, [&](const auto& registration) { return registration.second.peer == peer; });
  generations_.removed(connection.source, connection.delivered, connection.disconnected);
  connections_[peer].reset();
  return true;
}

/// UCX may crash if it is used to send to a process that has ended before the connection was made.
void Ucx::lose(Peer peer) {
  Connection& connection = connection_of(peer);
  connection.disconnected = false;
  fail(connection, "the process has ended");
}

void Ucx::watch(Peer peer) { static_cast<void>(connect(connection_of(peer))); }

}  // namespace weft::transport::ucx
