// SPDX-License-Identifier: BSD-3-Clause
// Messages of kernels to and of other hosts: puts with signals, flushes, atomic operations.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/counters.hpp"
#include "copy/copy.hpp"
#include "core/remote_memory.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/messages.hpp"

namespace weft::rma {
namespace {

counters::Counter dropped("window.dropped_kernel_puts", counters::Unit::events,
                          "Small puts of kernels of other hosts dropped because they are malformed, or their "
                          "memory or counter does not exist (any more)");

}  // namespace

void Messages::add_kernel_handlers() {
  const auto id = [](WindowHandler handler) { return static_cast<transport::am::HandlerId>(handler); };
  instance_.handlers.add<KernelPutMessage>(
      id(WindowHandler::kernel_put), *this,
      [](Messages& self, core::ProcessId source, const KernelPutMessage& message, size_t size) {
        self.on_kernel_put(source, message, size);
      });
  instance_.handlers.add<KernelFlushMessage>(
      id(WindowHandler::kernel_flush), *this,
      [](Messages& self, core::ProcessId source, const KernelFlushMessage& message, size_t) {
        self.on_kernel_flush(source, message);
      });
}

void Messages::on_kernel_put(core::ProcessId source, const KernelPutMessage& message, size_t size) {
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) return;
  if (window->counters != nullptr && window->counters->queue() != nullptr)
    window->counters->queue()->note_event();
  const auto drop = [&] {
    if (window->counters != nullptr) window->counters->failed_put(rank) = true;
    dropped.add();
  };
  if (size - sizeof message < message.length) return drop();
  if (message.length != 0) {
    std::byte* address = nullptr;
    const OwnMemory* const own = window->own_memory(message.offset, message.length, address);
    if (own == nullptr ||
        !copy::execute(copy::plain(address, own->memory), copy::plain(&message + 1), message.length,
                       device::StreamRole::in))  // accumulate kernels may wait in another stream
      return drop();
  }
  if (message.signal == 0) return;
  if (window->counters == nullptr || !window->counters->arrive(message.signal - 1)) drop();
}

void Messages::on_kernel_flush(core::ProcessId source, const KernelFlushMessage& message) {
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) return;
  if (message.answer == 0) {
    KernelFlushMessage answer = message;
    answer.answer = 1;
    answer.failed = window->counters != nullptr && window->counters->failed_put(rank) ? 1 : 0;
    const auto* const bytes = reinterpret_cast<const std::byte*>(&answer);
    return send(source, {bytes, bytes + sizeof answer});
  }
  KernelQueue* const queue = window->counters == nullptr ? nullptr : window->counters->queue();
  if (queue == nullptr) return count_stale();
  queue->flushed(rank, message.number, message.failed != 0);
}

void Messages::send_atomic(Operation& operation, uint64_t offset, const std::byte* in,
                           const std::byte* compare, uint8_t op, datatype::Basic basic) {
  operation.id = operations_.insert(operation);
  const uint64_t bytes = operation.data.size();
  const AccumulateMessage head{WindowHandler::accumulate,
                               op,
                               static_cast<uint8_t>(basic),
                               1,
                               1,
                               operation.window.comm->id,
                               operation.id,
                               0,
                               bytes};
  const Run run{offset, bytes};
  std::vector<std::byte> message(sizeof head + sizeof run + (compare != nullptr ? 2 : 1) * bytes);
  std::byte* out = message.data();
  std::memcpy(out, &head, sizeof head);
  std::memcpy(out += sizeof head, &run, sizeof run);
  std::memcpy(out += sizeof run, in, bytes);
  if (compare != nullptr) std::memcpy(out + bytes, compare, bytes);
  operation.add_part();
  send(operation.peer.process, std::move(message));
  operation.finish_part({});
}

/// Sends a put, and its signal, in one message or, if the network's are smaller, in several.
void KernelQueue::send_put(const Record& record, const std::byte* data, uint64_t position) {
  const size_t most =
      window_.instance.sender->max_message(peer(record.rank).process) - sizeof(KernelPutMessage);
  if (record.bytes != 0) count_move(true, record.bytes);
  for (uint64_t at = 0;;) {
    const uint64_t left = record.bytes - at, bytes = std::min<uint64_t>(left, most);
    const KernelPutMessage header{
        WindowHandler::kernel_put, {},   bytes == left ? record.signal : 0, window_.comm->id,
        record.offset + at,        bytes};
    send(record.rank, std::as_bytes(std::span(&header, 1)), data + at, bytes, position);
    at += bytes;
    if (at == record.bytes) break;
  }
  ++lanes_[static_cast<size_t>(record.rank)].sent;
}

bool KernelQueue::send_now(int rank, const Outgoing& message) {
  transport::am::Sender& sender = *window_.instance.sender;
  const core::ProcessId to = peer(rank).process;
  if (window_.instance.failures.failed(to)) return true;  // dropped
  const size_t size = message.header_bytes + message.bytes;
  std::byte* const slot = sender.reserve(to, size);
  if (slot == nullptr) return false;
  std::memcpy(slot, message.header.data(), message.header_bytes);
  if (message.bytes != 0) std::memcpy(slot + message.header_bytes, message.data, message.bytes);
  sender.commit(to, size);
  return true;
}

void KernelQueue::send(int rank, std::span<const std::byte> header, const std::byte* data, size_t bytes,
                       uint64_t position) {
  Outgoing message{{}, header.size(), data, bytes, position, nullptr};
  WEFT_ASSERT(header.size() <= message.header.size());
  std::memcpy(message.header.data(), header.data(), header.size());
  Lane& lane = lanes_[static_cast<size_t>(rank)];
  if (lane.backlog.empty() && send_now(rank, message)) return;
  if (lane.backlog.empty()) ++backlogs_;
  if (bytes != 0) ++unsent_[position % device::abi::Queue::kRecords];
  lane.backlog.push_back(message);
}

bool KernelQueue::send_backlog(int rank) {
  Lane& lane = lanes_[static_cast<size_t>(rank)];
  bool progressed = false;
  while (!lane.backlog.empty() &&
         (lane.backlog.front().put != nullptr || send_now(rank, lane.backlog.front()))) {
    if (Request* const put = drop_first(lane); put != nullptr) start_put(*put);
    progressed = true;
  }
  if (progressed) free_records();
  return progressed;
}

/// Takes what is sent, or has no receiver any more, from a backlog. Returns the put, which the caller starts
/// or ends; null: a message.
KernelQueue::Request* KernelQueue::drop_first(Lane& lane) {
  const Outgoing first = lane.backlog.front();
  if (first.bytes != 0) --unsent_[first.position % device::abi::Queue::kRecords];
  lane.backlog.pop_front();
  if (lane.backlog.empty()) --backlogs_;
  return first.put;
}

}  // namespace weft::rma
