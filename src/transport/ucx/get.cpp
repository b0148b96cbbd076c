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

Code Ucx::on_rts(const RtsHeader& head, const Arrival& arrival) {
  Connection* const source = source_of(head.message.job(), head.message.source);
  if (!in_generation(source, head.message, arrival.rest.data(), arrival.rest.size())) return Code::ok;
  Connection& connection = *source;
  // Eager data are ignored: a get requests them again.
  if (arrival.rendezvous)
    connection.pending_rts.insert_or_assign(head.buffer_id, PendingRts{arrival.data, arrival.size});
  current_descriptor_ = arrival.rendezvous ? arrival.data : nullptr;
  take_message(connection, head.message, arrival.rest.data(), arrival.rest.size());
  current_descriptor_ = nullptr;
  return arrival.rendezvous && connection.pending_rts.contains(head.buffer_id) ? Code::in_progress : Code::ok;
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
Operation* Ucx::start(Peer peer, const Buffer& local, Completion& done) {
  Connection& connection = connection_of(peer);
  const uint64_t id = ++last_operation_;
  Operation& get =
      *operations_.emplace(id, std::make_unique<Operation>(Operation{this, &connection, id, local, &done}))
           .first->second;
  ++connection.operations;
  static_cast<void>(begin_gpu_operation(local.memory));  // until complete()
  if (connect(connection)) return &get;
  // For a failing connection finish_failure() completes the operation.
  if (connection.state == Connection::State::lost)
    complete(get, Error(Errc::proc_aborted, connection.reason));
  return nullptr;
}

void Ucx::get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
              Completion& done) {
  Operation* const started = start(peer, local, done);
  if (started == nullptr) return;
  Operation& get = *started;
  Connection& connection = *get.connection;
  const uint64_t buffer_id = buffer_id_in(rkey);
  if (const auto rts = take_rts(connection, buffer_id)) {
    if (offset == 0 && local.length == rts->size) return receive(get, rts->descriptor);
    release(rts->descriptor);
  }
  SendBuffer* buffer = acquire_send_buffer(connection, 0);
  buffer->rma_request = {connection.secret, self_, job_for(peer), get.id, buffer_id, offset, local.length};
  send(buffer, kGetRequestId, sizeof(RmaRequest), nullptr, 0, RequestParameters::kEager, api::kHost);
}

/// Returns the part of a registered buffer that a request names; null if the peer may not access it.
std::optional<Buffer> Ucx::registered(const RmaRequest& request, Peer peer, Access access) const {
  const auto found = registrations_.find(request.buffer_id);
  if (found == registrations_.end()) return {};
  const auto& [owner, buffer, granted] = found->second;
  if (owner != peer || (access == Access::read_write && granted != access) ||
      request.offset > buffer.length || request.length > buffer.length - request.offset)
    return {};
  return Buffer{buffer.address + request.offset, request.length, buffer.memory};
}

Code Ucx::on_get_request(const RmaRequest& request, const Arrival&) {
  Connection* const source = source_of(request.job, request.source);
  if (source == nullptr || !connect(*source)) return Code::ok;
  const auto buffer = registered(request, source->peer, Access::read);
  SendBuffer* reply = acquire_send_buffer(*source, 0);
  reply->rma_reply = {source->secret, request.operation, buffer ? 1u : 0u};
  if (buffer)
    send_bulk(reply, kGetReplyId, sizeof(RmaReply), *buffer);
  else
    send(reply, kGetReplyId, sizeof(RmaReply), nullptr, 0, RequestParameters::kEager, api::kHost);
  return Code::ok;
}

Code Ucx::on_get_reply(const RmaReply& head, const Arrival& arrival) {
  const auto found = operations_.find(head.operation);
  if (found == operations_.end()) return Code::ok;
  Operation& get = *found->second;
  if (head.good == 0 || arrival.size != get.local.length)
    complete(get, Error(Errc::intern, "process " + std::to_string(get.connection->peer) +
                                          " no longer has the buffer of its RTS registered"));
  else if (arrival.rendezvous)
    receive(get, arrival.data);
  else
    complete(get, copy_to(get.local, arrival));
  return Code::ok;
}

/// Copies the data of an eager message.
Status Ucx::copy_to(const Buffer& target, const Arrival& arrival) const {
  if (supports(target.memory))
    return device::copy(target.address, target.memory, arrival.data, {}, arrival.size);
  std::memcpy(target.address, arrival.data, arrival.size);
  return {};
}

/// Starts receiving the data of a rendezvous. Returns UCX's request.
void* Ucx::receive_data(void* descriptor, const Buffer& target, api::ReceiveCallback done, void* user) {
  RequestParameters operation{};
  operation.mask = RequestParameters::kCallback | RequestParameters::kUser | RequestParameters::kMemoryType;
  operation.receive = done;
  operation.user = user;
  operation.memory_type = type_of(target.memory);
  const device::ContextGuard current(target.memory);
  return api_.ucp_am_recv_data_nbx(worker_, descriptor, target.address, target.length, &operation);
}

void Ucx::receive(Operation& get, void* descriptor) {
  get.receiving = true;
  void* request = receive_data(descriptor, get.local, on_received, &get);
  if (request == nullptr)
    complete(get, {});
  else if (api::is_error(request))
    complete(get, failure("receiving a message", api::error_in(request)));
}

void Ucx::on_received(void* request, Code status, size_t, void* user) {
  auto& get = *static_cast<Operation*>(user);
  Ucx& ucx = *get.owner;
  ucx.api_.ucp_request_free(request);
  if (ucx.operations_.find(get.id) == ucx.operations_.end()) {  // abandoned by finish_failure()
    delete &get;
    return;
  }
  if (status == Code::ok) return ucx.complete(get, {});
  Connection& connection = *get.connection;
  ucx.complete(get, Error(Errc::proc_aborted, std::string("receiving a message failed (") +
                                                  ucx.api_.ucs_status_string(status) + ")"));
  if (status != Code::canceled) ucx.fail(connection, ucx.api_.ucs_status_string(status));
}

void Ucx::complete(Operation& get, Status outcome) {
  --get.connection->operations;
  if (supports(get.local.memory)) --gpu_operations_;
  Completion& done = *get.done;
  operations_.erase(get.id);
  if (receiver_ != nullptr && !closing_) return done.done(done, std::move(outcome));
  finished_.push_back({&done, std::move(outcome)});
}

void Ucx::fire_completions() {
  for (auto finished = std::exchange(finished_, {}); FinishedOperation & get : finished)
    get.done->done(*get.done, std::move(get.outcome));
}

}  // namespace weft::transport::ucx
