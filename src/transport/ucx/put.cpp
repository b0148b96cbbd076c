// SPDX-License-Identifier: BSD-3-Clause
// Puts: an active message with the data, eager or by rendezvous, that the owner receives into its registered
// buffer and answers.
#include <cstring>
#include <utility>

#include "device/context_guard.hpp"
#include "device/copy.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

namespace {

constexpr size_t kMaxEagerBytes = size_t{8} << 10;

}  // namespace

void Ucx::put(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
              Completion& done) {
  Get* const put = start(peer, local, done);
  if (put == nullptr) return;
  SendBuffer* buffer = acquire_send_buffer(*put->connection, 0);
  buffer->get_request = {put->connection->secret, self_,  job_for(peer), put->id,
                         buffer_id_in(rkey),      offset, local.length};
  if (supports(local.memory) || local.length > kMaxEagerBytes)
    return send_bulk(buffer, kPutRequestId, sizeof(GetRequestHeader), local);
  send(buffer, kPutRequestId, sizeof(GetRequestHeader), local.address, local.length,
       RequestParameters::kEager, api::kHost);
}

Code Ucx::on_put_request(const GetRequestHeader& request, void* data, size_t size, bool rendezvous) {
  const Connection* const source = source_of(request.job, request.source);
  if (source == nullptr) return Code::ok;
  const Peer peer = source->peer;
  const auto found = registrations_.find(request.buffer_id);
  const Buffer* target = found == registrations_.end() ? nullptr : &found->second.buffer;
  if (target == nullptr || found->second.peer != peer || found->second.access != Access::read_write ||
      size != request.length || request.offset > target->length || size > target->length - request.offset) {
    reply_put(peer, request.get, false);
    return Code::ok;
  }
  std::byte* const to = target->address + request.offset;
  const device::Memory memory = target->memory;
  if (!rendezvous) {
    Status copied;
    if (supports(memory))
      copied = device::copy(to, memory, data, {}, size);
    else
      std::memcpy(to, data, size);
    reply_put(peer, request.get, copied.ok());
    return Code::ok;
  }
  auto& incoming =
      *incoming_puts_
           .emplace(++last_get_,
                    std::make_unique<IncomingPut>(IncomingPut{this, last_get_, request.get, peer, false}))
           .first->second;
  incoming.uses_gpu = begin_gpu_operation(memory);
  RequestParameters operation{};
  operation.mask = RequestParameters::kCallback | RequestParameters::kUser | RequestParameters::kMemoryType;
  operation.receive = on_put_received;
  operation.user = &incoming;
  operation.memory_type = type_of(memory);
  const device::ContextGuard current(memory);
  void* result = api_.ucp_am_recv_data_nbx(worker_, data, to, size, &operation);
  if (result == nullptr || api::is_error(result)) finish_put(incoming, result == nullptr);
  return Code::ok;
}

void Ucx::on_put_received(void* request, Code status, size_t, void* user) {
  auto& incoming = *static_cast<IncomingPut*>(user);
  Ucx& ucx = *incoming.owner;
  ucx.api_.ucp_request_free(request);
  ucx.finish_put(incoming, status == Code::ok);
}

void Ucx::finish_put(IncomingPut& incoming, bool good) {
  if (incoming.uses_gpu) --gpu_operations_;
  reply_put(incoming.source, incoming.put, good);
  incoming_puts_.erase(incoming.id);
}

void Ucx::reply_put(Peer to, uint64_t put, bool good) {
  Connection& connection = connection_of(to);
  if (!connect(connection)) return;
  SendBuffer* reply = acquire_send_buffer(connection, 0);
  reply->get_reply = {connection.secret, put, good ? 1u : 0u};
  send(reply, kPutReplyId, sizeof(GetReplyHeader), nullptr, 0, RequestParameters::kEager, api::kHost);
}

Code Ucx::on_put_reply(const GetReplyHeader& head) {
  const auto found = gets_.find(head.get);
  if (found == gets_.end()) return Code::ok;
  if (head.good != 0)
    complete(*found->second, {});
  else
    complete(
        *found->second,
        Error(Errc::intern, "process " + std::to_string(found->second->connection->peer) +
                                " does not have the buffer of a put registered, or could not write to it"));
  return Code::ok;
}

}  // namespace weft::transport::ucx
