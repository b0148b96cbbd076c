// SPDX-License-Identifier: BSD-3-Clause
// Accumulate operations of peers, which this process executes: under the accumulate lock, or by kernels on
// GPU memory. The latter run while the process polls, since a GPU may be full of kernels that wait for a
// message to this process. Operations on one window are executed one after the other, in their order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/remote_memory.hpp"
#include "rma/kernel_queue.hpp"
#include "rma/messages.hpp"

namespace weft::rma {
namespace {

using datatype::Basic;
using datatype::ReduceOp;

constexpr size_t kReplyBytes = sizeof(ReplyMessage);
/// Bytes of operations that wait in this process, of one window. The atomic operations that the kernels of an
/// origin can have in flight are less than 128 KiB; more is the backlog of large accumulate operations.
constexpr size_t kMaxWaitingBytes = size_t{16} << 20;

/// Copies between the runs of own memory and a packed stream. Errc::arg: outside of the window.
Status copy_runs(Window& window, const Run* runs, uint32_t count, std::byte* stream, uint64_t bytes,
                 bool write) {
  uint64_t at = 0;
  std::vector<device::CopyOp> copies;  // of `memory`
  device::Memory memory;
  const auto finish = [&]() -> Status {
    const device::Memory host;
    auto ticket = device::copy_batch_async(copies.data(), copies.size(), write ? memory : host,
                                           write ? host : memory, device::StreamRole::aux);
    copies.clear();
    return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
  };
  for (uint32_t i = 0; i < count; ++i) {
    std::byte* address = nullptr;
    const OwnMemory* const own = window.own_memory(runs[i].offset, runs[i].length, address);
    if (own == nullptr || runs[i].length > bytes - at)
      return error(ErrorClass::range, "an accumulate operation exceeds the window");
    const device::Memory kind = own->memory.on_device() ? own->memory : device::Memory{};
    if (!copies.empty() && kind.base != memory.base) WEFT_TRY(finish());
    memory = kind;
    copies.push_back({write ? address : stream + at, write ? stream + at : address, runs[i].length});
    at += runs[i].length;
  }
  WEFT_TRY(finish());
  return at == bytes ? Status()
                     : error(ErrorClass::range, "an accumulate operation has runs of another size");
}

/// The kernels' part of an operation on own GPU memory; null: the accumulate lock guards the operation.
/// `operands`: packed, `streams` of them. Errc::again: not now.
Result<std::unique_ptr<GpuUpdate>> gpu_update(Window& window, const std::vector<Run>& runs, uint64_t bytes,
                                              const std::optional<ElementOperation>& operation,
                                              const std::byte* operands, uint64_t streams) {
  if (!operation) return std::unique_ptr<GpuUpdate>();
  std::vector<GpuRun> gpu_runs;
  const OwnMemory* memory = nullptr;
  uint64_t found_bytes = 0;
  for (const Run& run : runs) {
    std::byte* address = nullptr;
    const OwnMemory* const found = window.own_memory(run.offset, run.length, address);
    if (found == nullptr || !device::can_accumulate(found->memory)) return std::unique_ptr<GpuUpdate>();
    memory = found;
    if (reinterpret_cast<uintptr_t>(address) % operation->size != 0) return std::unique_ptr<GpuUpdate>();
    gpu_runs.push_back({reinterpret_cast<uint64_t>(address), run.length});
    found_bytes += run.length;
  }
  if (memory == nullptr || bytes != found_bytes) return std::unique_ptr<GpuUpdate>();
  const auto make = [&](GpuStaging staging) {
    return std::make_unique<GpuUpdate>(*operation, memory->memory, std::move(gpu_runs),
                                       std::vector<std::byte>(operands, operands + streams * bytes),
                                       std::move(staging));
  };
  // The memory for a lease may have to be allocated, which waits for running kernels.
  if (KernelQueue* const queue = window.counters == nullptr ? nullptr : window.counters->queue()) {
    queue->note_event();  // kernels of the origin may wait for the answer
    return make(GpuStaging(queue->staging(), KernelQueue::kStagingBytes));
  }
  auto pinned = device::lease_pinned(memory->memory);
  if (!pinned) return std::move(pinned).error();
  return make(GpuStaging(std::move(*pinned)));
}

}  // namespace

bool Messages::updating(core::ContextId window) const {
  const auto found = updates_.find(window);
  return found != updates_.end() && found->second.running != nullptr;
}

void Messages::await_updates(const Window& window) {
  core::wait_until(instance_, [&] { return !updating(window.comm->id); });
}

void Messages::on_accumulate(core::ProcessId source, const AccumulateMessage& message, size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&message);
  const auto found = updates_.find(message.window);
  std::unique_ptr<Update> running;
  if (found == updates_.end() && execute(source, bytes, size, running)) {
    if (running != nullptr) updates_[message.window].running = std::move(running);
    return;
  }
  Updates& updates = updates_[message.window];
  updates.waiting.push_back({source, {bytes, bytes + size}});
  updates.waiting_bytes += size;
  while (updates.waiting_bytes > kMaxWaitingBytes && updates.running != nullptr) {
    updates.running->on_gpu->wait();
    (void)advance(updates);
  }
}

/// Answers the running operation if it has ended, and executes waiting ones. Returns whether any
/// progressed.
bool Messages::advance(Updates& updates) {
  bool progressed = false;
  if (updates.running != nullptr && finished(*updates.running)) {
    updates.running.reset();
    progressed = true;
  }
  while (updates.running == nullptr && !updates.waiting.empty()) {
    const Queued& first = updates.waiting.front();
    if (!execute(first.to, first.bytes.data(), first.bytes.size(), updates.running)) break;
    updates.waiting_bytes -= first.bytes.size();
    updates.waiting.pop_front();
    progressed = true;
  }
  return progressed;
}

bool Messages::poll_updates() {
  bool progressed = false;
  for (auto at = updates_.begin(); at != updates_.end();) {
    Updates& updates = at->second;
    progressed |= advance(updates);
    at = updates.running == nullptr && updates.waiting.empty() ? updates_.erase(at) : std::next(at);
  }
  return progressed;
}

/// Answers the operation if it has ended.
bool Messages::finished(Update& update) {
  auto done = update.on_gpu->poll();
  if (done && !*done) return false;
  answer(update.source, update.message, done ? Status() : Status(std::move(done).error()),
         update.on_gpu->take_before());
  return true;
}

/// `before`: the elements before the operation, which go into the answer of a fetching one.
void Messages::answer(core::ProcessId to, const AccumulateMessage& message, const Status& done,
                      std::vector<std::byte> before) {
  if (!done.ok() || message.fetch == 0) before.clear();
  const auto outcome = done.ok() ? ReplyMessage::done
                       : done.error().mpi_code() == static_cast<int>(ErrorClass::range)
                           ? ReplyMessage::out_of_range
                           : ReplyMessage::failed;
  const ReplyMessage reply{WindowHandler::reply, outcome,         {}, static_cast<uint32_t>(before.size()),
                           message.operation,    message.position};
  std::vector<std::byte> out(kReplyBytes + before.size());
  std::memcpy(out.data(), &reply, kReplyBytes);
  if (!before.empty()) std::memcpy(out.data() + kReplyBytes, before.data(), before.size());
  send(to, std::move(out));
}

bool Messages::execute(core::ProcessId source, const std::byte* bytes, size_t size,
                       std::unique_ptr<Update>& running) {
  AccumulateMessage message;
  std::memcpy(&message, bytes, sizeof message);
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) {
    const ReplyMessage reply{WindowHandler::reply, ReplyMessage::no_window, {}, 0,
                             message.operation,    message.position};
    const auto* const raw = reinterpret_cast<const std::byte*>(&reply);
    send(source, {raw, raw + kReplyBytes});
    return true;
  }
  const bool swap = message.op == AccumulateMessage::kCompareSwap;
  const auto op = swap ? ReduceOp::replace : static_cast<ReduceOp>(message.op);
  const auto basic = static_cast<Basic>(message.basic);
  const uint64_t streams = swap ? 2 : op == ReduceOp::no_op ? 0 : 1;
  const uint64_t rest = size - sizeof message;
  const bool known = (swap || message.op < datatype::kReduceOpCount) &&
                     message.basic < datatype::kBasicCount && datatype::reduce_function(op, basic) != nullptr;
  if (!known || message.bytes > AccumulateMessage::kMaxBytes ||
      message.runs > AccumulateMessage::kMaxBytes / sizeof(Run) ||
      message.bytes % static_cast<uint64_t>(datatype::traits_of(basic).size) != 0 ||
      rest < message.runs * sizeof(Run) + streams * message.bytes) {
    count_stale();
    return true;
  }
  std::vector<Run> runs(message.runs);
  std::memcpy(runs.data(), bytes + sizeof message, runs.size() * sizeof(Run));
  const std::byte* const in = bytes + sizeof message + runs.size() * sizeof(Run);
  auto on_gpu = gpu_update(*window, runs, message.bytes, ElementOperation::of(op, basic, swap), in, streams);
  if (!on_gpu) {
    if (on_gpu.error().code() == Errc::again) return false;
    answer(source, message, std::move(on_gpu).error(), {});
    return true;
  }
  if (*on_gpu != nullptr) {
    auto update = std::make_unique<Update>(Update{source, message, std::move(*on_gpu)});
    if (!finished(*update)) running = std::move(update);
    return true;
  }
  if (!window->control->try_accumulate(window->comm->rank())) return false;
  std::vector<std::byte> stream(message.bytes), before;
  Status done = copy_runs(*window, runs.data(), message.runs, stream.data(), message.bytes, false);
  if (done.ok()) {
    if (message.fetch != 0) before = stream;
    const bool equal = !swap || std::memcmp(stream.data(), in + message.bytes, message.bytes) == 0;
    if (op == ReduceOp::replace)
      std::memcpy(stream.data(), in, message.bytes);
    else if (op != ReduceOp::no_op)
      combine(op, basic, in, stream.data(),
              message.bytes / static_cast<uint64_t>(datatype::traits_of(basic).size));
    if (op != ReduceOp::no_op && equal)
      done = copy_runs(*window, runs.data(), message.runs, stream.data(), message.bytes, true);
  }
  window->control->end_accumulate();
  answer(source, message, done, std::move(before));
  return true;
}

}  // namespace weft::rma
