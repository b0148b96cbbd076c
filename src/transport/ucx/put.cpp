// SPDX-License-Identifier: BSD-3-Clause
// Puts: an active message with the data, eager or by rendezvous, that the owner receives into its registered
// buffer and answers.
#include <algorithm>
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
  Operation* const put = start(peer, local, done);
  if (put == nullptr) return;
  SendBuffer* buffer = acquire_send_buffer(*put->connection, 0);
  buffer->rma_request = {put->connection->secret, self_,  job_for(peer), put->id,
                         buffer_id_in(rkey),      offset, local.length};
  if (supports(local.memory) || local.length > kMaxEagerBytes)
    return send_bulk(buffer, kPutRequestId, sizeof(RmaRequest), local);
  send(buffer, kPutRequestId, sizeof(RmaRequest), local.address, local.length, RequestParameters::kEager,
       api::kHost);
}

Code Ucx::on_put_request(const RmaRequest& request, const Arrival& arrival) {
  const Connection* const source = source_of(request.job, request.source);
  if (source == nullptr) return Code::ok;
  const Peer peer = source->peer;
  const auto target = registered(request, peer, Access::read_write);
  if (!target || arrival.size != request.length || !arrival.rendezvous) {
    reply_put(peer, request.operation,
              target && arrival.size == request.length && copy_to(*target, arrival).ok());
    return Code::ok;
  }
  const uint64_t id = ++last_operation_;
  auto& incoming = *incoming_puts_.emplace(id, std::make_unique<IncomingPut>()).first->second;
  incoming = {this, id, request.operation, request.buffer_id, peer, begin_gpu_operation(target->memory)};
  void* result = receive_data(arrival.data, *target, on_put_received, &incoming);
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

bool Ucx::receiving(uint64_t buffer_id) const {
  return std::any_of(incoming_puts_.begin(), incoming_puts_.end(),
                     [&](const auto& incoming) { return incoming.second->buffer_id == buffer_id; });
}

void Ucx::reply_put(Peer to, uint64_t put, bool good) {
  Connection& connection = connection_of(to);
  if (!connect(connection)) return;
  SendBuffer* reply = acquire_send_buffer(connection, 0);
  reply->rma_reply = {connection.secret, put, good ? 1u : 0u};
  send(reply, kPutReplyId, sizeof(RmaReply), nullptr, 0, RequestParameters::kEager, api::kHost);
}

Code Ucx::on_put_reply(const RmaReply& head, const Arrival&) {
  const auto found = operations_.find(head.operation);
  if (found == operations_.end()) return Code::ok;
  Status outcome;
  if (head.good == 0)
    outcome =
        Error(Errc::intern, "process " + std::to_string(found->second->connection->peer) +
                                " does not have the buffer of a put registered, or could not write to it");
  complete(*found->second, std::move(outcome));
  return Code::ok;
}

}  // namespace weft::transport::ucx
