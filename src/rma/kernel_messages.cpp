// SPDX-License-Identifier: BSD-3-Clause
// Messages of kernels of other hosts: small puts with signals, flushes, atomic operations.
#include <cstring>
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
  if (queue != nullptr) queue->flushed(rank, message.number, message.failed != 0);
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

}  // namespace weft::rma
