// SPDX-License-Identifier: BSD-3-Clause
// Messages: sent from buffers that UCX releases, delivered in order of their sequence numbers.
#include <cstring>
#include <new>
#include <utility>

#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

namespace {

constexpr size_t kSmallBufferBytes = 512;
constexpr size_t kMaxOutstandingPerPeer = size_t{2} << 20;  // bytes, approximate
constexpr size_t kMaxFreeBuffers = 64;                      // per size

}  // namespace

SendBuffer* Ucx::acquire_send_buffer(Connection& connection, size_t capacity) {
  auto& free_buffers = free_buffers_[capacity > kSmallBufferBytes ? 1 : 0];
  SendBuffer* buffer = nullptr;
  if (!free_buffers.empty()) {
    buffer = free_buffers.back();
    free_buffers.pop_back();
  } else {
    const size_t bytes = capacity > kSmallBufferBytes ? kMaxMessageBytes : kSmallBufferBytes;
    buffer = new (::operator new(sizeof(SendBuffer) + bytes)) SendBuffer;
    buffer->owner = this;
    buffer->capacity = bytes;
  }
  buffer->connection = &connection;
  ++connection.send_buffers;
  buffer->uses_gpu = buffer->is_rendezvous = buffer->counts_as_outstanding = false;
  return buffer;
}

void Ucx::release_send_buffer(SendBuffer* buffer) {
  --buffer->connection->send_buffers;
  auto& free_buffers = free_buffers_[buffer->capacity > kSmallBufferBytes ? 1 : 0];
  if (free_buffers.size() < kMaxFreeBuffers)
    free_buffers.push_back(buffer);
  else
    ::operator delete(buffer);
}

std::byte* Ucx::reserve(Peer peer, size_t size) {
  Connection& connection = connection_of(peer);
  if (connection.outstanding_bytes >= kMaxOutstandingPerPeer) return nullptr;
  reserved_ = acquire_send_buffer(connection, size);
  return reserved_->data;
}

/// Assigns the next sequence number of a connected peer.
void Ucx::assign_sequence(SendBuffer& buffer) {
  const uint32_t kind = job_for(buffer.connection->peer) << 1 | MessageHeader::kUser;
  buffer.message = {buffer.connection->secret, self_, kind, buffer.connection->sent++};
  buffer.connection->last_messages.end = buffer.connection->sent;
  buffer.connection->disconnect_sent = false;
}

void Ucx::commit(Peer, size_t size) {
  SendBuffer* buffer = std::exchange(reserved_, nullptr);
  if (!connect(*buffer->connection)) return release_send_buffer(buffer);
  assign_sequence(*buffer);
  buffer->counts_as_outstanding = true;
  outstanding_bytes_ += buffer->capacity;
  buffer->connection->outstanding_bytes += buffer->capacity;
  send(buffer, kMessageId, sizeof(MessageHeader), buffer->data, size, RequestParameters::kEager, api::kHost);
}

/// Precondition: connected. on_sent() releases the buffer, possibly before this function returns.
void Ucx::send(SendBuffer* buffer, unsigned id, size_t head_size, const void* data, size_t size,
               uint32_t flags, int type) {
  RequestParameters operation{};
  operation.mask = RequestParameters::kCallback | RequestParameters::kUser | RequestParameters::kFlags |
                   RequestParameters::kMemoryType;
  operation.flags = flags;
  buffer->is_rendezvous = flags == RequestParameters::kRendezvous;
  operation.send = on_sent;
  operation.user = buffer;
  operation.memory_type = type;
  const void* head =
      id == kRtsId ? static_cast<const void*>(buffer->data) : &buffer->message;  // of the union
  void* request =
      api_.ucp_am_send_nbx(buffer->connection->endpoint, id, head, head_size, data, size, &operation);
  if (request != nullptr && !api::is_error(request)) return;
  const Code code = request == nullptr ? Code::ok : api::error_in(request);
  on_sent(nullptr, code, buffer);
}

void Ucx::on_sent(void* request, Code status, void* user) {
  auto* buffer = static_cast<SendBuffer*>(user);
  Ucx& ucx = *buffer->owner;
  if (request != nullptr) ucx.api_.ucp_request_free(request);
  if (status != Code::ok && status != Code::canceled)
    ucx.fail(*buffer->connection, ucx.api_.ucs_status_string(status));
  if (buffer->is_rendezvous && status == Code::ok) buffer->connection->rendezvous_completed = true;
  if (buffer->uses_gpu) --ucx.gpu_operations_;
  if (buffer->counts_as_outstanding) {
    ucx.outstanding_bytes_ -= buffer->capacity;
    buffer->connection->outstanding_bytes -= buffer->capacity;
  }
  ucx.release_send_buffer(buffer);
}

Code Ucx::on_message(const MessageHeader& head, const Arrival& arrival) {
  if (arrival.size > kMaxMessageBytes) return Code::ok;
  Connection* const source = source_of(head.job(), head.source);
  if (in_generation(source, head, arrival.data, arrival.size))
    take_message(*source, head, arrival.data, arrival.size);
  return Code::ok;
}

/// Delivers a message, or stores it until its predecessors have arrived.
void Ucx::take_message(Connection& connection, const MessageHeader& head, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (receiver_ != nullptr && head.sequence == connection.delivered && connection.out_of_order.empty())
      [[likely]]
    return deliver(connection, head.kind, bytes, size);
  if (head.sequence < connection.delivered) return;  // a duplicate
  connection.out_of_order[head.sequence] = {head.kind, {bytes, bytes + size}};
  if (receiver_ != nullptr)
    deliver_in_order(connection);
  else if (head.sequence == connection.delivered)
    ready_.push_back(&connection);
}

/// Returns whether the message belongs to this connection. Passes on the request of a process that connects.
bool Ucx::in_generation(Connection* connection, const MessageHeader& head, const void* data, size_t size) {
  if (head.job() == 0) [[likely]]
    return connection != nullptr;
  if (owner_ == nullptr || size > aligned_copy_.size()) return false;
  const Generations::Source source{head.job(), head.source};
  const bool notice = (head.kind & MessageHeader::kDisconnect) != 0;
  uint64_t* const expected = connection != nullptr ? &connection->delivered : nullptr;
  switch (generations_.check(source, head.sequence, notice, expected)) {
    case Generations::Action::take:
      connection->source = source;
      return true;
    case Generations::Action::unknown:
      if (size != 0) std::memcpy(aligned_copy_.data(), data, size);
      if (!owner_->unknown_source(connection != nullptr ? connection->peer : kNoPeer, aligned_copy_.data(),
                                  size))
        return false;
      connection->out_of_order.clear();
      generations_.renew(source, head.sequence, connection->disconnected, connection->delivered);
      connection->source = source;
      return true;
    case Generations::Action::drop:
      return false;
  }
  return false;
}

void Ucx::deliver(Connection& connection, uint32_t kind, const std::byte* data, size_t size) {
  ++connection.delivered;
  connection.disconnected = (kind & MessageHeader::kDisconnect) != 0;
  if (connection.disconnected) {
    connection.made_after_notice = false;
    const int notice = size != 0 ? std::to_integer<int>(*data) : 0;
    if ((notice & kAwaitsAnswer) != 0 && connection.peer < job_size_) unanswered_.push_back(&connection);
    if ((notice & kLeft) != 0) {
      connection.left = true;
      receiver_->left(connection.peer);
    }
    return;
  }
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) {
    std::memcpy(aligned_copy_.data(), data, size);
    data = aligned_copy_.data();
  }
  ++delivered_;
  receiver_->deliver(connection.peer, data, size);
}

void Ucx::deliver_in_order(Connection& connection) {
  while (!connection.out_of_order.empty() && connection.out_of_order.begin()->first == connection.delivered) {
    const OutOfOrderMessage kept = std::move(connection.out_of_order.begin()->second);
    connection.out_of_order.erase(connection.out_of_order.begin());
    deliver(connection, kept.kind, kept.data.data(), kept.data.size());
  }
}

}  // namespace weft::transport::ucx
