// SPDX-License-Identifier: BSD-3-Clause
// Registered buffers and gets: a get request is answered by a rendezvous from the owner.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "device/context_guard.hpp"
#include "device/copy.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

/// Called before an operation on `memory`. Returns true for GPU memory: progress() then uses its context
/// until the operation completes.
bool Ucx::begin_gpu_operation(const device::Memory& memory) {
  if (!supports(memory)) return false;
  ++gpu_operations_;
  gpu_ = memory;
  return true;
}

/// Sends a header and `data` by rendezvous.
void Ucx::send_bulk(SendBuffer* buffer, unsigned id, size_t head_size, const Buffer& data) {
  buffer->uses_gpu = begin_gpu_operation(data.memory);
  const device::ContextGuard current(data.memory);
  send(buffer, id, head_size, data.address, data.length, RequestParameters::kRendezvous,
       type_of(data.memory));
}

Result<Registered> Ucx::register_buffer(Peer peer, const Buffer& buffer, std::byte* rkey, Access access) {
  const uint64_t id = ++last_buffer_id_;
  registrations_.emplace(id, Registration{peer, buffer, access});
  std::memcpy(rkey, &id, sizeof id);
  return Registered{id, sizeof id};
}

// Sends the message as the header of a rendezvous of the buffer, so that the peer gets without a request. It
// is not outstanding for idle(): it completes only after the peer's get. The first rendezvous of a connection
// is never sent this way: UCX resolves the remote endpoint first, and while it waits it misses the peer's
// failure.
void Ucx::send_rts(Peer peer, size_t size, uint64_t id) {
  const size_t head_size = sizeof(RtsHeader) + size;
  Connection& connection = connection_of(peer);
  const auto registration =
      registrations_.find(id);  // none: the peer has reconnected since register_buffer()
  if (!connect(connection) || !connection.rendezvous_completed || registration == registrations_.end() ||
      head_size > std::min(max_am_header_, reserved_->capacity))
    return commit(peer, size);
  SendBuffer* buffer = std::exchange(reserved_, nullptr);
  assign_sequence(*buffer);
  std::memmove(buffer->data + sizeof(RtsHeader), buffer->data, size);
  new (buffer->data) RtsHeader{buffer->message, id};
  send_bulk(buffer, kRtsId, head_size, registration->second.buffer);
}

Code Ucx::on_rts(const RtsHeader& head, std::span<const std::byte> message, void* data, size_t size,
                 bool rendezvous) {
  Connection* const source = source_of(head.message.job(), head.message.source);
  if (source == nullptr) return Code::ok;
  Connection& connection = *source;
  // Eager data are ignored: a get requests them again.
  if (rendezvous) connection.pending_rts.insert_or_assign(head.buffer_id, PendingRts{data, size});
  current_descriptor_ = rendezvous ? data : nullptr;
  take_message(connection, head.message, message.data(), message.size());
  current_descriptor_ = nullptr;
  return rendezvous && connection.pending_rts.contains(head.buffer_id) ? Code::in_progress : Code::ok;
}

std::optional<PendingRts> Ucx::take_rts(Connection& connection, uint64_t buffer_id) {
  const auto found = connection.pending_rts.find(buffer_id);
  if (found == connection.pending_rts.end()) return {};
  const PendingRts rts = found->second;
  connection.pending_rts.erase(found);
  return rts;
}

/// Completes the sender's rendezvous without transferring data.
void Ucx::release(void* descriptor) {
  if (descriptor != current_descriptor_) api_.ucp_am_data_release(worker_, descriptor);
}

void Ucx::release_pending_rts(Connection& connection) {
  for (const auto& [buffer_id, rts] : std::exchange(connection.pending_rts, {})) release(rts.descriptor);
}

void Ucx::discard_rts(Peer peer, std::span<const std::byte> rkey) {
  if (const auto rts = take_rts(connection_of(peer), buffer_id_in(rkey))) release(rts->descriptor);
}

/// Returns a new get or put; null if its peer is lost or failing.
Get* Ucx::start(Peer peer, const Buffer& local, Completion& done) {
  Connection& connection = connection_of(peer);
  const uint64_t id = ++last_get_;
  Get& get =
      *gets_.emplace(id, std::make_unique<Get>(Get{this, &connection, id, local, &done})).first->second;
  ++connection.gets;
  static_cast<void>(begin_gpu_operation(local.memory));  // until complete()
  if (connect(connection)) return &get;
  // For a failing connection finish_failure() completes the operation.
  if (connection.state == Connection::State::lost)
    complete(get, Error(Errc::proc_aborted, connection.reason));
  return nullptr;
}

void Ucx::get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
              Completion& done) {
  Get* const started = start(peer, local, done);
  if (started == nullptr) return;
  Get& get = *started;
  Connection& connection = *get.connection;
  const uint64_t buffer_id = buffer_id_in(rkey);
  if (const auto rts = take_rts(connection, buffer_id)) {
    if (offset == 0 && local.length == rts->size) return receive(get, rts->descriptor);
    release(rts->descriptor);
  }
  SendBuffer* buffer = acquire_send_buffer(connection, 0);
  buffer->get_request = {connection.secret, self_, job_for(peer), get.id, buffer_id, offset, local.length};
  send(buffer, kGetRequestId, sizeof(GetRequestHeader), nullptr, 0, RequestParameters::kEager, api::kHost);
}

Code Ucx::on_get_request(const GetRequestHeader& request) {
  Connection* const source = source_of(request.job, request.source);
  if (source == nullptr) return Code::ok;
  Connection& connection = *source;
  if (!connect(connection)) return Code::ok;
  const auto found = registrations_.find(request.buffer_id);
  SendBuffer* reply = acquire_send_buffer(connection, 0);
  reply->get_reply = {connection.secret, request.get, 0};
  if (found == registrations_.end() || found->second.peer != connection.peer ||
      request.offset > found->second.buffer.length ||
      request.length > found->second.buffer.length - request.offset) {
    send(reply, kGetReplyId, sizeof(GetReplyHeader), nullptr, 0, RequestParameters::kEager, api::kHost);
    return Code::ok;
  }
  const Buffer& buffer = found->second.buffer;
  reply->get_reply.good = 1;
  send_bulk(reply, kGetReplyId, sizeof(GetReplyHeader),
            {buffer.address + request.offset, request.length, buffer.memory});
  return Code::ok;
}

Code Ucx::on_get_reply(const GetReplyHeader& head, void* data, size_t size, bool rendezvous) {
  const auto found = gets_.find(head.get);
  if (found == gets_.end()) return Code::ok;
  Get& get = *found->second;
  if (head.good == 0 || size != get.local.length) {
    complete(get, Error(Errc::intern, "process " + std::to_string(get.connection->peer) +
                                          " no longer has the buffer of its RTS registered"));
    return Code::ok;
  }
  if (rendezvous) {
    receive(get, data);
    return Code::ok;
  }
  const device::Memory memory = get.local.memory;
  Status copied;
  if (supports(memory))
    copied = device::copy(get.local.address, memory, data, {}, size);
  else
    std::memcpy(get.local.address, data, size);
  complete(get, std::move(copied));
  return Code::ok;
}

/// Starts receiving the data of a rendezvous into the get's buffer.
void Ucx::receive(Get& get, void* descriptor) {
  const device::Memory memory = get.local.memory;
  get.receiving = true;
  RequestParameters operation{};
  operation.mask = RequestParameters::kCallback | RequestParameters::kUser | RequestParameters::kMemoryType;
  operation.receive = on_received;
  operation.user = &get;
  operation.memory_type = type_of(memory);
  const device::ContextGuard current(memory);
  void* request =
      api_.ucp_am_recv_data_nbx(worker_, descriptor, get.local.address, get.local.length, &operation);
  if (request == nullptr)
    complete(get, {});
  else if (api::is_error(request))
    complete(get, failure("receiving a message", api::error_in(request)));
}

void Ucx::on_received(void* request, Code status, size_t, void* user) {
  auto& get = *static_cast<Get*>(user);
  Ucx& ucx = *get.owner;
  ucx.api_.ucp_request_free(request);
  if (ucx.gets_.find(get.id) == ucx.gets_.end()) {  // abandoned by finish_failure()
    delete &get;
    return;
  }
  if (status == Code::ok) return ucx.complete(get, {});
  Connection& connection = *get.connection;
  ucx.complete(get, Error(Errc::proc_aborted, std::string("receiving a message failed (") +
                                                  ucx.api_.ucs_status_string(status) + ")"));
  if (status != Code::canceled) ucx.fail(connection, ucx.api_.ucs_status_string(status));
}

void Ucx::complete(Get& get, Status outcome) {
  --get.connection->gets;
  if (supports(get.local.memory)) --gpu_operations_;
  Completion& done = *get.done;
  gets_.erase(get.id);
  if (receiver_ != nullptr) return done.done(done, std::move(outcome));
  finished_.push_back({&done, std::move(outcome)});
}

void Ucx::fire_completions() {
  for (auto finished = std::exchange(finished_, {}); FinishedGet & get : finished)
    get.done->done(*get.done, std::move(get.outcome));
}

}  // namespace weft::transport::ucx
