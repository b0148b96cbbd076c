// SPDX-License-Identifier: BSD-3-Clause
// Submission and completion of asynchronous copies. A copy does not allocate: it takes the lock of its
// stream, submits the copy, and submits one completion mark.
#include "device/copy.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/submit.hpp"
#include "device/pinned.hpp"

namespace weft::device {

struct TicketAccess {
  static void set(Ticket& ticket, cuda::TrackedStream& tracked, uint32_t sequence, cuda::Event event) {
    ticket.owner_ = &tracked;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  using Executor = Ticket::Executor;
  static Ticket make(Executor executor, cuda::State& state, uint32_t number) {
    Ticket ticket;
    ticket.owner_ = &state;
    ticket.sequence_ = number;
    ticket.executor_ = executor;
    return ticket;
  }
  static Executor executor(const Ticket& ticket) { return ticket.executor_; }
  static cuda::State& state(const Ticket& ticket) { return *static_cast<cuda::State*>(ticket.owner_); }
  static cuda::TrackedStream& tracked(const Ticket& ticket) {
    return *static_cast<cuda::TrackedStream*>(ticket.owner_);
  }
  static uint32_t sequence(const Ticket& ticket) { return ticket.sequence_; }
  static cuda::Event event(const Ticket& ticket) { return ticket.event_; }
  static uint64_t& fault_check_at(Ticket& ticket) { return ticket.fault_check_at_; }
};

namespace {

using cuda::Code;
using cuda::Completion;
using cuda::State;
using cuda::TrackedStream;

constexpr size_t kMaxEngineBatch = 64;                             // copies per cuMemcpyBatchAsync
constexpr size_t kMaxBatchCopies = kernel::BatchCopyParams::kMax;  // copies per kernel
constexpr uint64_t kFaultCheckIntervalNs = 1'000'000;              // ns; gpu.md, trap 10

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

/// The state whose stream executes a copy: of the destination's context if that is device memory.
Result<State*> state_for(const Memory& dst, const Memory& src) {
  const bool at_dst = dst.on_device() || (!src.on_device() && dst.kind == MemoryKind::cuda_managed);
  return cuda::state_of(at_dst ? dst : src);
}

/// Whether no stream is known to access both sides. Pool and cuMemMap memory is accessible to other GPUs only
/// if the application enabled access, which cannot be queried.
bool no_common_stream(const Memory& dst, const Memory& src) {
  if (!dst.on_device() || !src.on_device() || (dst.context != nullptr && src.context != nullptr))
    return false;
  const auto to = cuda::context_of(dst), from = cuda::context_of(src);
  return to && from && *to != *from;
}

/// Copies synchronously through host memory.
Status copy_through_host(std::span<const CopyOp> copies, const Memory& dst, const Memory& src) {
  slow_copy_through_host.hit("pool or cuMemMap memory is copied between two GPUs of one process");
  constexpr size_t kUnpinned = size_t{256} << 10;
  auto pinned = lease_pinned(src);  // falls back to pageable memory
  std::vector<char> unpinned(pinned ? 0 : kUnpinned);
  char* const staging = pinned ? pinned->data() : unpinned.data();
  const size_t most = pinned ? pinned->size() : kUnpinned;
  const Memory between = pinned ? pinned->memory() : Memory();
  for (const CopyOp& piece : copies) {
    for (size_t at = 0; at < piece.size; at += most) {
      const size_t n = std::min(most, piece.size - at);
      WEFT_TRY(copy(staging, between, static_cast<const char*>(piece.src) + at, src, n));
      WEFT_TRY(copy(static_cast<char*>(piece.dst) + at, dst, staging, between, n));
    }
  }
  return {};
}

/// Waits for the stream after a failed submission, so that the buffers are unused on return.
void drain(const TrackedStream& tracked) {
  const cuda::RelaxedCapture relaxed;
  while (cuda::driver().stream_query(tracked.stream) == cuda::kNotReady) ::sched_yield();
}

cuda::Code write_flag(TrackedStream& tracked, uint32_t sequence) {
  return cuda::driver().stream_write_value32(tracked.stream, tracked.flag_address, sequence,
                                             cuda::kWriteValueDefault);
}

/// Hybrid completion: writes the flag of the previous copy if that copy may still be pending. The last copy
/// has no flag, which would cost the stream microseconds: a stream query detects its completion.
cuda::Code mark_predecessor(TrackedStream& tracked) {
  const uint32_t last = tracked.submitted.load(std::memory_order_relaxed);
  if (tracked.method != Completion::hybrid || last == tracked.seen.load(std::memory_order_relaxed))
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
    auto taken = cuda::take_event(*tracked.state);
    if (!taken) return cuda::kOutOfMemory;
    event = *taken;
    code = cuda::driver().event_record(event, tracked.stream);
    if (code != cuda::kSuccess) cuda::give_event(*tracked.state, event);
  }
  if (code == cuda::kSuccess) TicketAccess::set(ticket, tracked, sequence, event);
  return code;
}

/// Runs `issue(stream)`, which returns a driver code, for a stream of the state and submits the completion
/// mark.
template <class Issue>
Result<Ticket> submit(State& state, const Memory& dst, const Memory& src, StreamRole role, const char* call,
                      Issue&& issue) {
  TrackedStream& tracked = state.streams[static_cast<size_t>(role)];
  const std::lock_guard lock(tracked.mutex);
  const cuda::CurrentContext current(state.context);
  if (current.code() != cuda::kSuccess) [[unlikely]]
    return copy_failure(current.code(), "cuCtxPushCurrent", dst, src);
  if (const cuda::Code fault = tracked.fault.load(std::memory_order_relaxed); fault != cuda::kSuccess)
      [[unlikely]]
    return copy_failure(fault, "earlier copy", dst, src);
  WEFT_TRY(cuda::prepare(tracked));
  if (const cuda::Code code = mark_predecessor(tracked); code != cuda::kSuccess) [[unlikely]]
    return copy_failure(code, "completion mark", dst, src);
  if (const cuda::Code code = issue(tracked.stream); code != cuda::kSuccess) [[unlikely]] {
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

/// Whether a kernel in the state's context can access the memory: cudaMalloc memory of the context, memory
/// mapped into it, staging chunks.
bool kernel_reaches(const State& state, const Memory& memory) {
  return memory.context == state.context && (memory.on_device() || memory.staging);
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

/// Submits copies to the copy engines, as batches if the driver supports them.
Code issue(std::span<const kernel::CopyItem> items, cuda::Stream stream) {
  if (items.size() > 1 && cuda::driver().memcpy_batch_async != nullptr) return issue_batch(items, stream);
  for (const kernel::CopyItem& item : items)
    if (const Code code = cuda::driver().memcpy_async(item.dst, item.src, item.bytes, stream);
        code != cuda::kSuccess)
      return code;
  return cuda::kSuccess;
}

/// Starts the resident kernel if due. Call after a small copy was submitted to another executor.
void start_resident_kernel(State& state) {
  const cuda::CurrentContext current(state.context);
  if (current.code() == cuda::kSuccess) state.resident_kernel.start_if_due();
}

/// Queries the ticket's event or stream; returns kNotReady, kSuccess or the error.
cuda::Code query_driver(const TrackedStream& tracked, cuda::Event event) {
  if (tracked.stream == nullptr) return cuda::kContextIsDestroyed;  // after close()
  const cuda::CurrentContext current(tracked.state->context);
  if (current.code() != cuda::kSuccess) return current.code();
  const cuda::RelaxedCapture relaxed;
  return event != nullptr ? cuda::driver().event_query(event) : cuda::driver().stream_query(tracked.stream);
}

/// Whether a periodic query for stream errors is due: a faulted stream never writes its flag.
bool fault_check_due(uint64_t& fault_check_at) {
  const uint64_t time = monotonic_ns();
  const bool due = fault_check_at != 0 && time >= fault_check_at;
  if (fault_check_at == 0 || due) fault_check_at = time + kFaultCheckIntervalNs;
  return due;
}

/// Submits copies that a kernel did not start to a copy engine.
Result<bool> resubmit(Ticket& ticket, State& state, std::span<const kernel::CopyItem> items) {
  auto again = submit(state, {}, {}, StreamRole::aux, "cuMemcpyAsync",
                      [&](cuda::Stream stream) { return issue(items, stream); });
  if (!again) return std::move(again).error();
  ticket = std::move(*again);
  return false;
}

/// done() for a pack kernel.
Result<bool> pack_done(Ticket& ticket) {
  State& state = TicketAccess::state(ticket);
  const uint32_t id = TicketAccess::sequence(ticket);
  cuda::PackJob job;
  const cuda::Outcome outcome = state.pack_queue.poll(id, job);
  if (outcome == cuda::Outcome::pending) {
    if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
    const Code code = state.pack_queue.fault(id);
    if (code == cuda::kSuccess) return false;
    ticket = Ticket();
    return cuda::failure(code, "cuStreamQuery",
                         "a GPU transfer failed, or an earlier GPU operation of this program did");
  }
  ticket = Ticket();
  if (outcome == cuda::Outcome::done) return true;
  if (outcome == cuda::Outcome::timed_out || job.tiles.wait_flags != 0)
    return Error(Errc::again, "timeout: the kernel of the other GPU did not pack the tiles in time");
  auto again = cuda::pack_by_copy_engines(state, job);
  if (!again) return std::move(again).error();
  ticket = std::move(*again);
  return !ticket.pending();
}

/// done() for copies by a kernel.
Result<bool> kernel_done(Ticket& ticket) {
  if (TicketAccess::executor(ticket) == TicketAccess::Executor::pack_kernel) return pack_done(ticket);
  State& state = TicketAccess::state(ticket);
  const uint32_t number = TicketAccess::sequence(ticket);
  const bool list = TicketAccess::executor(ticket) == TicketAccess::Executor::batch_copy;
  const cuda::Outcome outcome = list ? state.batch_copy.poll(number) : state.resident_kernel.poll(number);
  if (outcome == cuda::Outcome::done) [[likely]] {
    ticket = Ticket();
    return true;
  }
  if (outcome == cuda::Outcome::not_started) {
    if (list) return resubmit(ticket, state, state.batch_copy.items(number));
    auto again = resubmit(ticket, state, state.resident_kernel.items(number));
    if (again) start_resident_kernel(state);
    return again;
  }
  if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
  const Code code = list ? state.batch_copy.fault(number) : state.resident_kernel.fault();
  if (code == cuda::kSuccess) return false;
  ticket = Ticket();
  return cuda::failure(code, "cuStreamQuery",
                       "a GPU transfer failed, or an earlier GPU operation of this program did");
}

/// Submits to a kernel if one accepts the copies; else returns an empty ticket.
Ticket submit_to_kernel(State& state, std::span<const kernel::CopyItem> items, const Memory& from,
                        bool for_resident_kernel, bool engines_busy) {
  if (for_resident_kernel)
    if (const uint32_t number = state.resident_kernel.submit(items, from.staging))
      return TicketAccess::make(TicketAccess::Executor::resident_kernel, state, number);
  if (state.batch_copy.accepts(items, engines_busy))
    if (const uint32_t number = state.batch_copy.launch(items))
      return TicketAccess::make(TicketAccess::Executor::batch_copy, state, number);
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
  cuda::give_event(*TicketAccess::tracked(*this).state, event_);
  event_ = nullptr;
}

Result<Ticket> copy_async(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                          size_t n, StreamRole role) {
  const CopyOp piece{dst, src, n};
  return copy_batch_async(&piece, 1, dst_memory, src_memory, role);
}

Result<Ticket> copy_batch_async(const CopyOp* copies, size_t count, const Memory& dst_memory,
                                const Memory& src_memory, StreamRole role, bool engines_busy) {
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
  auto found = state_for(dst_memory, src_memory);
  if (!found) return std::move(found).error();
  State& state = **found;
  const bool reached =
      !batches.more() && kernel_reaches(state, dst_memory) && kernel_reaches(state, src_memory);
  const bool for_resident_kernel = reached && state.resident_kernel.accepts(batch);
  if (reached) {
    Ticket taken = submit_to_kernel(state, batch, src_memory, for_resident_kernel, engines_busy);
    if (for_resident_kernel && TicketAccess::executor(taken) == TicketAccess::Executor::batch_copy)
      start_resident_kernel(state);
    if (taken.pending()) return taken;
  }
  const char* call = batch.size() == 1 ? "cuMemcpyAsync" : "batch of copies";
  auto ticket = submit(state, dst_memory, src_memory, role, call, [&](cuda::Stream stream) {
    Code code = cuda::kSuccess;
    for (; code == cuda::kSuccess && !batch.empty(); batch = batches.next()) code = issue(batch, stream);
    return code;
  });
  if (for_resident_kernel && ticket) start_resident_kernel(state);
  return ticket;
}

Result<Ticket> copy_signal_async(void* dst, const Memory& dst_memory, const void* src,
                                 const Memory& src_memory, size_t n, StreamRole role, uint64_t word,
                                 uint64_t value) {
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]]
    return copy_async(dst, dst_memory, src, src_memory, n, role);
  auto state = state_for(dst_memory, src_memory);
  if (!state) return std::move(state).error();
  return submit(**state, dst_memory, src_memory, role, "cuMemcpyAsync", [&](cuda::Stream stream) {
    const Code code = cuda::driver().memcpy_async(address(dst), address(src), n, stream);
    if (code != cuda::kSuccess) return code;
    const Code signal = cuda::driver().stream_write_value64(stream, word, value, cuda::kWriteValueDefault);
    if (signal != cuda::kSuccess) slow_no_stream_write.hit(cuda::describe(signal));
    return code;
  });
}

Result<Ticket> copy_2d_async(const Copy2D& copy, const Memory& dst_memory, const Memory& src_memory,
                             StreamRole role) {
  if (copy.width == 0 || copy.height == 0) return Ticket();
  if (cpu_copies(dst_memory, src_memory)) {
    for (size_t row = 0; row < copy.height; ++row)
      std::memcpy(static_cast<char*>(copy.dst) + row * copy.dst_pitch,
                  static_cast<const char*>(copy.src) + row * copy.src_pitch, copy.width);
    return Ticket();
  }
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]]
    return Error(Errc::unsupported,
                 "no strided copy between GPUs without access to each other's memory: use a batch of copies");
  auto state = state_for(dst_memory, src_memory);
  if (!state) return std::move(state).error();
  if (copy.dst_pitch > (*state)->max_pitch || copy.src_pitch > (*state)->max_pitch ||
      copy.dst_pitch < copy.width || copy.src_pitch < copy.width)
    return Error(Errc::unsupported, "unsupported pitch of a strided GPU copy (below the width or above " +
                                        std::to_string((*state)->max_pitch) +
                                        " bytes): use a batch of copies");
  cuda::Memcpy2D description{};
  description.src_type = description.dst_type = cuda::kMemoryUnified;
  description.src_device = address(copy.src);
  description.src_pitch = copy.src_pitch;
  description.dst_device = address(copy.dst);
  description.dst_pitch = copy.dst_pitch;
  description.width = copy.width;
  description.height = copy.height;
  return submit(**state, dst_memory, src_memory, role, "cuMemcpy2DAsync",
                [&](cuda::Stream stream) { return cuda::driver().memcpy_2d_async(&description, stream); });
}

Result<Ticket> cuda::submit_work(State& state, const Memory& dst, const Memory& src, StreamRole role,
                                 const char* call, Issue issue) {
  return submit(state, dst, src, role, call,
                [&](Stream) { return issue(state.streams[static_cast<size_t>(role)]); });
}

Ticket cuda::pack_ticket(State& state, uint32_t id) {
  return TicketAccess::make(TicketAccess::Executor::pack_kernel, state, id);
}

Result<Ticket> cuda::copy_engines_async(State& state, const Memory& dst, const Memory& src, StreamRole role,
                                        std::span<const CopyOp> copies) {
  KernelBatches batches(copies.data(), copies.size());
  return submit(state, dst, src, role, "batch of copies", [&](cuda::Stream stream) {
    Code code = cuda::kSuccess;
    for (auto batch = batches.next(); code == cuda::kSuccess && !batch.empty(); batch = batches.next())
      code = issue(batch, stream);
    return code;
  });
}

bool cuda::reaches(const State& state, const Memory& memory) {
  if (memory.kind == MemoryKind::cuda_managed) return true;
  if (memory.staging) return memory.context == state.context;
  if (!memory.on_device()) return false;
  return memory.context != nullptr ? memory.context == state.context : memory.device == state.device;
}

Result<bool> done(Ticket& ticket) {
  if (!ticket.pending()) return true;
  if (TicketAccess::executor(ticket) != TicketAccess::Executor::copy_engine) return kernel_done(ticket);
  TrackedStream& tracked = TicketAccess::tracked(ticket);
  const bool last = tracked.method == Completion::hybrid &&
                    TicketAccess::sequence(ticket) == tracked.submitted.load(std::memory_order_acquire);
  if (tracked.method == Completion::flag || (tracked.method == Completion::hybrid && !last)) {
    if (tracked.flag != nullptr) [[likely]] {
      const uint32_t seen = __atomic_load_n(tracked.flag, __ATOMIC_ACQUIRE);
      if (static_cast<int32_t>(seen - TicketAccess::sequence(ticket)) >= 0) {
        ticket = Ticket();
        return true;
      }
    }
    if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
  }
  const cuda::Code code = query_driver(tracked, TicketAccess::event(ticket));
  if (code == cuda::kNotReady) return false;
  if (last && code == cuda::kSuccess)
    tracked.seen.store(TicketAccess::sequence(ticket), std::memory_order_relaxed);
  ticket = Ticket();
  if (code == cuda::kSuccess) return true;
  tracked.fault.store(code, std::memory_order_relaxed);
  return cuda::failure(code, tracked.method == Completion::event ? "cuEventQuery" : "cuStreamQuery",
                       "a GPU transfer failed, or an earlier GPU operation of this program did");
}

Status wait(Ticket& ticket) {
  constexpr int kSpins = 2000;
  for (int i = 0;; ++i) {
    auto finished = done(ticket);
    if (!finished) return std::move(finished).error();
    if (*finished) return {};
    if (i > kSpins) ::sched_yield();
  }
}

Status copy(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory, size_t n) {
  auto ticket = copy_async(dst, dst_memory, src, src_memory, n, StreamRole::aux);
  if (!ticket) return std::move(ticket).error();
  return wait(*ticket);
}

void keep_running(const Memory& memory) {
  if (!memory.shareable() || monotonic_ns() < cuda::ResidentKernel::next_keep_running()) return;
  if (auto state = cuda::state_of(memory)) (*state)->resident_kernel.keep_running();
}

KernelOptions kernel_options_for(size_t bytes) {
  return {cuda::ResidentKernel::blocks_for_copy(bytes), cuda::BatchCopy::accepts_size(bytes)};
}

const char* completion_method(const Memory& memory) {
  constexpr const char* kNames[] = {"none", "event", "flag", "query", "hybrid"};
  if (!available() || !memory.known_to_driver()) return kNames[0];
  auto state = cuda::state_of(memory);
  if (!state) return kNames[0];
  Completion method = Completion::automatic;
  for (TrackedStream& tracked : (*state)->streams) {
    const std::lock_guard lock(tracked.mutex);
    if (tracked.stream != nullptr) method = tracked.method;
  }
  return kNames[static_cast<size_t>(method)];
}

}  // namespace weft::device
