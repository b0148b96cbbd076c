// SPDX-License-Identifier: BSD-3-Clause
// Submission of asynchronous copies. A copy does not allocate: it takes the lock of its
// stream, submits the copy, and submits one completion mark.
#include "device/copy.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "device/ipc.hpp"
#include "device/pinned.hpp"
#include "device/queue/submit.hpp"
#include "device/queue/time_sliced_copy.hpp"
#include "device/queue/work_queue.hpp"
#include "device/time_slices.hpp"

namespace weft::device {

namespace {

using cuda::Code;
using cuda::Completion;
using cuda::CopyForm;
using cuda::TrackedStream;
using cuda::WorkQueue;

constexpr size_t kMaxEngineBatch = 64;                             // copies per cuMemcpyBatchAsync
constexpr size_t kMaxBatchCopies = kernel::BatchCopyParams::kMax;  // copies per kernel

log::SlowPath slow_copy_through_host{
    "gpu.copy_through_host",
    "copied through host memory, about 10 times slower than between cudaMalloc allocations"};

log::SlowPath slow_no_stream_write{"gpu.no_stream_write", "the waiting kernel continues about 10 us later"};

cuda::Address address(const void* p) { return reinterpret_cast<cuda::Address>(p); }

Error copy_failure(cuda::Code code, const char* call, const Memory& dst, const Memory& src) {
  return cuda::failure(
      code, call, std::string("a copy from ") + name(src.kind) + " to " + name(dst.kind) + " memory failed");
}

/// Whether both sides are host memory: a memcpy is the fastest copy.
bool cpu_copies(const Memory& dst, const Memory& src) {
  const auto plain = [](MemoryKind kind) {
    return kind == MemoryKind::host || kind == MemoryKind::host_pinned;
  };
  return plain(dst.kind) && plain(src.kind);
}

/// The queue whose stream executes a copy: of the destination's context if that is device memory.
Result<WorkQueue*> queue_for(const Memory& dst, const Memory& src) {
  const bool at_dst = dst.on_device() || (!src.on_device() && dst.kind == MemoryKind::cuda_managed);
  return cuda::queue_of(at_dst ? dst : src);
}

/// Whether no stream is known to access both sides. Pool and cuMemMap memory is accessible to other GPUs only
/// if the application enabled access, which cannot be queried.
bool no_common_stream(const Memory& dst, const Memory& src) {
  if (!dst.on_device() || !src.on_device() || (dst.context != nullptr && src.context != nullptr))
    return false;
  const auto to = cuda::context_of(dst), from = cuda::context_of(src);
  return to && from && *to != *from;
}

/// Copies synchronously, piece by piece.
Status copy_through(char* staging, const Memory& between, size_t most, std::span<const CopyOp> copies,
                    const Memory& dst, const Memory& src) {
  for (const CopyOp& piece : copies) {
    for (size_t at = 0; at < piece.size; at += most) {
      const size_t n = std::min(most, piece.size - at);
      WEFT_TRY(copy(staging, between, static_cast<const char*>(piece.src) + at, src, n));
      WEFT_TRY(copy(static_cast<char*>(piece.dst) + at, dst, staging, between, n));
    }
  }
  return {};
}

/// Copies synchronously through host memory.
Status copy_through_host(std::span<const CopyOp> copies, const Memory& dst, const Memory& src) {
  slow_copy_through_host.hit("pool or cuMemMap memory is copied between two GPUs of one process");
  constexpr size_t kUnpinned = size_t{256} << 10;
  auto pinned = lease_pinned(src);  // falls back to pageable memory
  std::vector<char> unpinned(pinned ? 0 : kUnpinned);
  if (pinned) return copy_through(pinned->data(), pinned->memory(), pinned->size(), copies, dst, src);
  return copy_through(unpinned.data(), Memory(), kUnpinned, copies, dst, src);
}

/// Whether the driver copies between pageable memory and a GPU that processes use in time slices: it would
/// wait for a switch of the GPU.
bool is_pageable_in_time_slices(const WorkQueue& queue, const Memory& dst, const Memory& src) {
  return (dst.kind == MemoryKind::host || src.kind == MemoryKind::host) && time_sliced(queue.device);
}

/// Waits for the stream after a failed submission, so that the buffers are unused on return.
void drain(const TrackedStream& tracked) {
  const cuda::RelaxedCapture relaxed;
  while (cuda::driver().stream_query(tracked.stream) == cuda::kNotReady) ::sched_yield();
}

cuda::Code write_flag(TrackedStream& tracked, uint32_t sequence) {
  WEFT_ASSERT(static_cast<int32_t>(sequence - __atomic_load_n(tracked.flag, __ATOMIC_RELAXED)) >= 0);  // Q2
  return cuda::driver().stream_write_value32(tracked.stream, tracked.flag_address, sequence,
                                             cuda::kWriteValueDefault);
}

/// Hybrid completion: writes the flag of the previous copy if that copy may still be pending and is not of
/// the same chain. The last copy has no flag, which would cost the stream microseconds: a stream query
/// detects its completion.
cuda::Code mark_predecessor(TrackedStream& tracked, const void* chain) {
  const uint32_t last = tracked.submitted.load(std::memory_order_relaxed);
  const bool chained = std::exchange(tracked.chain, chain) == chain && chain != nullptr;
  if (chained || tracked.method != Completion::hybrid || last == tracked.seen.load(std::memory_order_relaxed))
    return cuda::kSuccess;
  return write_flag(tracked, last);
}

/// Submits the completion mark and sets the ticket.
cuda::Code mark(TrackedStream& tracked, Ticket& ticket) {
  const uint32_t sequence = tracked.submitted.load(std::memory_order_relaxed) + 1;
  tracked.submitted.store(sequence, std::memory_order_release);
  cuda::Event event = nullptr;
  cuda::Code code = cuda::kSuccess;
  if (tracked.method == Completion::flag) {
    code = write_flag(tracked, sequence);
  } else if (tracked.method == Completion::event) {
    auto taken = cuda::take_event(*tracked.queue);
    if (!taken) return cuda::kOutOfMemory;
    event = *taken;
    code = cuda::driver().event_record(event, tracked.stream);
    if (code != cuda::kSuccess) cuda::give_event(*tracked.queue, event);
  }
  if (code == cuda::kSuccess) TicketAccess::set(ticket, tracked, sequence, event);
  return code;
}

/// Runs `issue(tracked)`, which returns a driver code, for a stream of the queue and submits the completion
/// mark.
template <class Issue>
Result<Ticket> submit(WorkQueue& queue, const Memory& dst, const Memory& src, StreamRole role,
                      const char* call, Issue&& issue, const void* chain = nullptr) {
  TrackedStream& tracked = queue.streams[static_cast<size_t>(role)];
  const std::lock_guard lock(tracked.mutex);
  const cuda::CurrentContext current(queue.context);
  if (current.code() != cuda::kSuccess) [[unlikely]]
    return copy_failure(current.code(), "cuCtxPushCurrent", dst, src);
  if (const cuda::Code fault = tracked.fault.load(std::memory_order_relaxed); fault != cuda::kSuccess)
      [[unlikely]]
    return copy_failure(fault, "earlier copy", dst, src);
  WEFT_ASSERT(tracked.stream != nullptr);  // Q1
  if (const cuda::Code code = mark_predecessor(tracked, chain); code != cuda::kSuccess) [[unlikely]]
    return copy_failure(code, "completion mark", dst, src);
  if (const cuda::Code code = issue(tracked); code != cuda::kSuccess) [[unlikely]] {
    drain(tracked);
    return copy_failure(code, call, dst, src);
  }
  Ticket ticket;
  if (const cuda::Code code = mark(tracked, ticket); code != cuda::kSuccess) [[unlikely]] {
    drain(tracked);
    return copy_failure(code, "completion mark", dst, src);
  }
  return ticket;
}

/// Whether a kernel in the queue's context can access the memory: cudaMalloc memory of the context, memory
/// mapped into it, staging chunks.
bool kernel_reaches(const WorkQueue& queue, const Memory& memory) {
  return memory.context == queue.context && (memory.on_device() || memory.staging);
}

/// Submits copies to the copy engines with cuMemcpyBatchAsync.
Code issue_batch(std::span<const kernel::CopyItem> items, cuda::Stream stream) {
  cuda::Address to[kMaxEngineBatch], from[kMaxEngineBatch];
  size_t sizes[kMaxEngineBatch];
  cuda::BatchAttributes attributes{};
  attributes.source_access_order = cuda::kSourceOrderStream;
  while (!items.empty()) {
    const size_t count = std::min(items.size(), kMaxEngineBatch);
    for (size_t i = 0; i < count; ++i)
      to[i] = items[i].dst, from[i] = items[i].src, sizes[i] = items[i].bytes;
    size_t first = 0, failed = 0;
    const Code code =
        cuda::driver().memcpy_batch_async(to, from, sizes, count, &attributes, &first, 1, &failed, stream);
    if (code != cuda::kSuccess) return code;
    items = items.subspan(count);
  }
  return cuda::kSuccess;
}

/// Submits copies to the copy engines, as batches if the driver supports them. The stream's mutex is held.
Code issue(std::span<const kernel::CopyItem> items, TrackedStream& tracked, CopyForm form) {
  if (form == CopyForm::staged && !cuda::can_stage(tracked)) form = CopyForm::plain;
  if (form == CopyForm::plain && items.size() > 1 && cuda::driver().memcpy_batch_async != nullptr)
    return issue_batch(items, tracked.stream);
  const auto submit_one = [&](const kernel::CopyItem& item) {
    if (form == CopyForm::rows) return cuda::copy_in_rows(item, tracked.stream);
    if (form == CopyForm::staged) return cuda::copy_staged(item, tracked);
    return cuda::driver().memcpy_async(item.dst, item.src, item.bytes, tracked.stream);
  };
  for (const kernel::CopyItem& item : items)
    if (const Code code = submit_one(item); code != cuda::kSuccess) return code;
  return cuda::kSuccess;
}

kernel::Command::Output output_of(const WorkQueue& queue, const Memory& to) {
  if (cuda::owns(queue, to)) return kernel::Command::own_gpu;
  return to.on_device() ? kernel::Command::peer_gpu : kernel::Command::anywhere;
}

/// Submits to a kernel if one accepts the copies; else returns an empty ticket.
Ticket submit_to_kernel(WorkQueue& queue, std::span<const kernel::CopyItem> items, const Memory& to,
                        const Memory& from, bool for_resident_kernel, bool engines_busy) {
  if (for_resident_kernel)
    if (const uint32_t number = queue.resident_kernel.submit(items, from.staging, output_of(queue, to)))
      return TicketAccess::make(TicketAccess::Executor::resident_kernel, queue, number);
  if (items.size() >= cuda::BatchCopy::kMinCopies && queue.batch_copy.accepts(items, engines_busy))
    if (const uint32_t number = queue.batch_copy.launch(items, to.imported))
      return TicketAccess::make(TicketAccess::Executor::batch_copy, queue, number);
  return {};
}

/// Splits the copies into batches for a kernel; skips empty copies.
class KernelBatches {
 public:
  KernelBatches(const CopyOp* copies, size_t count) : at_(copies), end_(copies + count) {}
  /// The next batch; empty at the end.
  [[nodiscard]] std::span<const kernel::CopyItem> next() {
    size_t filled = 0;
    for (; at_ != end_ && filled < kMaxBatchCopies; ++at_)
      if (at_->size != 0) items_[filled++] = {address(at_->dst), address(at_->src), at_->size};
    return {items_, filled};
  }
  [[nodiscard]] bool more() const { return at_ != end_; }

 private:
  const CopyOp *at_, *end_;
  kernel::CopyItem items_[kMaxBatchCopies];
};

}  // namespace

void Ticket::return_event() {
  cuda::give_event(*TicketAccess::tracked(*this).queue, event_);
  event_ = nullptr;
}

Result<Ticket> copy_async(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                          size_t n, StreamRole role) {
  const CopyOp piece{dst, src, n};
  return copy_batch_async(&piece, 1, dst_memory, src_memory, role);
}

Result<Ticket> copy_batch_async(const CopyOp* copies, size_t count, const Memory& dst_memory,
                                const Memory& src_memory, StreamRole role, bool engines_busy,
                                const void* chain) {
  if (cpu_copies(dst_memory, src_memory)) {
    for (size_t i = 0; i < count; ++i)
      if (copies[i].size != 0) std::memcpy(copies[i].dst, copies[i].src, copies[i].size);
    return Ticket();
  }
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]] {
    WEFT_TRY(copy_through_host({copies, count}, dst_memory, src_memory));
    return Ticket();
  }
  KernelBatches batches(copies, count);
  auto batch = batches.next();
  if (batch.empty()) return Ticket();
  auto found = queue_for(dst_memory, src_memory);
  if (!found) return std::move(found).error();
  WorkQueue& queue = **found;
  if (is_pageable_in_time_slices(queue, dst_memory, src_memory)) [[unlikely]] {
    if (auto pinned = lease_pinned(dst_memory.known_to_driver() ? dst_memory : src_memory)) {
      WEFT_TRY(copy_through(pinned->data(), pinned->memory(), pinned->size(), {copies, count}, dst_memory,
                            src_memory));
      return Ticket();
    }
  }
  const bool reached =
      !batches.more() && kernel_reaches(queue, dst_memory) && kernel_reaches(queue, src_memory);
  const bool for_resident_kernel = reached && queue.resident_kernel.accepts(batch);
  if (reached) {
    Ticket taken = submit_to_kernel(queue, batch, dst_memory, src_memory, for_resident_kernel, engines_busy);
    if (for_resident_kernel && TicketAccess::executor(taken) == TicketAccess::Executor::batch_copy)
      cuda::start_resident_kernel(queue);
    if (taken.pending()) return taken;
  }
  const CopyForm form = cuda::form_of(queue, dst_memory, src_memory, {copies, count});
  const char* call = batch.size() == 1 ? "cuMemcpyAsync" : "batch of copies";
  const auto issue_all = [&](TrackedStream& tracked) {
    Code code = cuda::kSuccess;
    for (; code == cuda::kSuccess && !batch.empty(); batch = batches.next())
      code = issue(batch, tracked, form);
    return code;
  };
  auto ticket = submit(queue, dst_memory, src_memory, role, call, issue_all, chain);
  if (for_resident_kernel && ticket) cuda::start_resident_kernel(queue);
  return ticket;
}

Result<Ticket> copy_signal_async(void* dst, const Memory& dst_memory, const void* src,
                                 const Memory& src_memory, size_t n, StreamRole role, uint64_t word,
                                 uint64_t value) {
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]]
    return copy_async(dst, dst_memory, src, src_memory, n, role);
  auto queue = queue_for(dst_memory, src_memory);
  if (!queue) return std::move(queue).error();
  const CopyOp piece{dst, src, n};
  const CopyForm form = cuda::form_of(**queue, dst_memory, src_memory, {&piece, 1});
  return submit(**queue, dst_memory, src_memory, role, "cuMemcpyAsync", [&](TrackedStream& tracked) {
    const kernel::CopyItem item{address(dst), address(src), n};
    const Code code = issue({&item, 1}, tracked, form);
    if (code != cuda::kSuccess) return code;
    const Code signal =
        cuda::driver().stream_write_value64(tracked.stream, word, value, cuda::kWriteValueDefault);
    if (signal != cuda::kSuccess) slow_no_stream_write.hit(cuda::describe(signal));
    return code;
  });
}

Result<Ticket> cuda::submit_work(WorkQueue& queue, const Memory& dst, const Memory& src, StreamRole role,
                                 const char* call, Issue issue) {
  return submit(queue, dst, src, role, call, [&](TrackedStream& tracked) { return issue(tracked); });
}

Ticket cuda::pack_ticket(WorkQueue& queue, uint32_t id) {
  return TicketAccess::make(TicketAccess::Executor::pack_kernel, queue, id);
}

Result<Ticket> cuda::copy_engines_async(WorkQueue& queue, const Memory& dst, const Memory& src,
                                        StreamRole role, std::span<const CopyOp> copies) {
  KernelBatches batches(copies.data(), copies.size());
  const CopyForm form = cuda::form_of(queue, dst, src, copies);
  return submit(queue, dst, src, role, "batch of copies", [&](TrackedStream& tracked) {
    Code code = cuda::kSuccess;
    for (auto batch = batches.next(); code == cuda::kSuccess && !batch.empty(); batch = batches.next())
      code = issue(batch, tracked, form);
    return code;
  });
}

Result<Ticket> cuda::resubmit_items(WorkQueue& queue, std::span<const kernel::CopyItem> items) {
  return submit(queue, {}, {}, StreamRole::aux, "cuMemcpyAsync",
                [&](TrackedStream& tracked) { return issue(items, tracked, CopyForm::plain); });
}

void cuda::start_resident_kernel(WorkQueue& queue) {
  const CurrentContext current(queue.context);
  if (current.code() == kSuccess) queue.resident_kernel.start_if_due();
}

bool cuda::reaches(const WorkQueue& queue, const Memory& memory) {
  if (memory.kind == MemoryKind::cuda_managed) return true;
  if (memory.staging) return memory.context == queue.context;
  if (!memory.on_device()) return false;
  return memory.context != nullptr ? memory.context == queue.context : memory.device == queue.device;
}

bool cuda::owns(const WorkQueue& queue, const Memory& memory) {
  // The program may pass a peer's memory, of MPI_Win_shared_query; the driver reports the importing device.
  return memory.on_device() && !memory.imported && memory.device == queue.device && memory.base != 0 &&
         !is_imported(memory.base);
}

Status copy(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory, size_t n) {
  auto ticket = copy_async(dst, dst_memory, src, src_memory, n, StreamRole::aux);
  if (!ticket) return std::move(ticket).error();
  return wait(*ticket);
}

void keep_running(const Memory& memory) {
  if (!memory.shareable() || monotonic_ns() < cuda::ResidentKernel::next_keep_running()) return;
  if (auto queue = cuda::queue_of(memory)) (*queue)->resident_kernel.keep_running();
}

KernelOptions kernel_options_for(size_t bytes) {
  return {cuda::ResidentKernel::blocks_for_copy(bytes), cuda::BatchCopy::accepts_size(bytes)};
}

}  // namespace weft::device
