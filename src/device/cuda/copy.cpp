// SPDX-License-Identifier: BSD-3-Clause
// Submission and completion of asynchronous copies. The path of a copy allocates nothing: one lock of the
// lane, the copy, one mark behind it.
#include "device/copy.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "device/cuda/context.hpp"

namespace weft::device {

struct TicketAccess {
  static void set(Ticket& ticket, cuda::LaneStream& lane, uint32_t sequence, cuda::Event event) {
    ticket.where_ = &lane;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  static Ticket by_copier(cuda::State& state, uint32_t number) {
    Ticket ticket;
    ticket.where_ = &state;
    ticket.sequence_ = number;
    ticket.by_copier_ = true;
    return ticket;
  }
  static bool is_by_copier(const Ticket& ticket) { return ticket.by_copier_; }
  static cuda::State& state(const Ticket& ticket) { return *static_cast<cuda::State*>(ticket.where_); }
  static cuda::LaneStream& lane(const Ticket& ticket) {
    return *static_cast<cuda::LaneStream*>(ticket.where_);
  }
  static uint32_t sequence(const Ticket& ticket) { return ticket.sequence_; }
  static cuda::Event event(const Ticket& ticket) { return ticket.event_; }
  static uint64_t& check_at(Ticket& ticket) { return ticket.check_at_; }
};

namespace {

using cuda::Code;
using cuda::Completion;
using cuda::LaneStream;
using cuda::State;

config::Size setting_list_max("gpu.list_max", 0, 0, size_t{1} << 30,
                              "Four and more GPU copies of at most this size each go out as one kernel: "
                              "quicker than copy engines below "
                              "1m. 0, never: a kernel needs a free place on the GPU, and one of the "
                              "application that fills it and waits "
                              "for the message would wait for ever");
config::Size setting_blocks("gpu.list_blocks", 64, 1, 1024,
                            "Blocks of 512 threads that such a kernel uses, at most");

constexpr size_t kMany = 4;                          // copies for which a kernel beats a batch of the engines
constexpr size_t kBatch = 64;                        // copies handed to the engines in one call
constexpr uint64_t kFaultCheckInterval = 1'000'000;  // ns; gpu.md, trap 10

cuda::Address address(const void* p) { return reinterpret_cast<cuda::Address>(p); }

Error copy_failure(cuda::Code code, const char* call, const Memory& dst, const Memory& src) {
  return cuda::failure(
      code, call, std::string("a copy from ") + name(src.kind) + " to " + name(dst.kind) + " memory failed");
}

/// Both sides can be copied by the CPU, and it is the cheaper way.
bool cpu_copies(const Memory& dst, const Memory& src) {
  const auto plain = [](MemoryKind kind) {
    return kind == MemoryKind::host || kind == MemoryKind::host_pinned;
  };
  return plain(dst.kind) && plain(src.kind);
}

/// The state whose stream does a copy: of the destination's context where that is device memory.
Result<State*> state_for(const Memory& dst, const Memory& src) {
  const bool at_dst = dst.on_device() || (!src.on_device() && dst.kind == MemoryKind::cuda_managed);
  return cuda::state_of(at_dst ? dst : src);
}

/// Waits for what is in flight after a failed submission, so that the buffers are free on return.
void drain(const LaneStream& lane) {
  const cuda::RelaxedCapture relaxed;
  while (cuda::driver().stream_query(lane.stream) == cuda::kNotReady) ::sched_yield();
}

cuda::Code write_flag(LaneStream& lane, uint32_t sequence) {
  return cuda::driver().stream_write_value32(lane.stream, lane.flag_address, sequence,
                                             cuda::kWriteValueDefault);
}

/// Hybrid completion: a copy gets its flag only when another follows it while it may be under way. A flag
/// costs the stream some microseconds; the last copy is seen by asking the stream.
cuda::Code mark_predecessor(LaneStream& lane) {
  const uint32_t last = lane.submitted.load(std::memory_order_relaxed);
  if (lane.method != Completion::hybrid || last == lane.seen.load(std::memory_order_relaxed))
    return cuda::kSuccess;
  return write_flag(lane, last);
}

/// Puts the completion mark behind what was submitted.
cuda::Code mark(LaneStream& lane, Ticket& ticket) {
  const uint32_t sequence = lane.submitted.load(std::memory_order_relaxed) + 1;
  lane.submitted.store(sequence, std::memory_order_release);
  cuda::Event event = nullptr;
  cuda::Code code = cuda::kSuccess;
  if (lane.method == Completion::flag) {
    code = write_flag(lane, sequence);
  } else if (lane.method == Completion::event) {
    auto taken = cuda::take_event(*lane.state);
    if (!taken) return cuda::kOutOfMemory;
    event = *taken;
    code = cuda::driver().event_record(event, lane.stream);
    if (code != cuda::kSuccess) cuda::give_event(*lane.state, event);
  }
  if (code == cuda::kSuccess) TicketAccess::set(ticket, lane, sequence, event);
  return code;
}

/// Runs `issue(stream)` (returns a driver code) in a lane of the state's context and marks its end.
template <class Issue>
Result<Ticket> submit(State& state, const Memory& dst, const Memory& src, Lane which, const char* call,
                      Issue&& issue) {
  LaneStream& lane = state.lanes[static_cast<size_t>(which)];
  const std::lock_guard lock(lane.mutex);
  const cuda::CurrentContext current(state.context);
  if (current.code() != cuda::kSuccess) [[unlikely]]
    return copy_failure(current.code(), "cuCtxPushCurrent", dst, src);
  if (const cuda::Code fault = lane.fault.load(std::memory_order_relaxed); fault != cuda::kSuccess)
      [[unlikely]]
    return copy_failure(fault, "earlier copy", dst, src);
  WEFT_TRY(cuda::prepare(lane));
  if (const cuda::Code code = mark_predecessor(lane); code != cuda::kSuccess) [[unlikely]]
    return copy_failure(code, "completion mark", dst, src);
  if (const cuda::Code code = issue(lane.stream); code != cuda::kSuccess) [[unlikely]] {
    drain(lane);
    return copy_failure(code, call, dst, src);
  }
  Ticket ticket;
  if (const cuda::Code code = mark(lane, ticket); code != cuda::kSuccess) [[unlikely]] {
    drain(lane);
    return copy_failure(code, "completion mark", dst, src);
  }
  return ticket;
}

/// A kernel in the state's context may touch it: its own plain memory, what was mapped into it, staging
/// chunks.
bool kernel_reaches(const State& state, const Memory& memory) {
  return memory.context == state.context && (memory.on_device() || memory.staging);
}

/// Copies in as few kernel launches as hold their list.
Code issue_list(State& state, const Piece* pieces, size_t count, cuda::Stream stream) {
  const cuda::RelaxedCapture relaxed;  // a first launch may load
  kernel::List list{};
  size_t chunks = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size != 0) {
      list.items[list.count++] = {address(pieces[i].dst), address(pieces[i].src), pieces[i].size};
      chunks += (pieces[i].size + kernel::List::kChunk - 1) / kernel::List::kChunk;
    }
    if (list.count == 0 || (list.count < kernel::List::kMax && i + 1 < count)) continue;
    void* parameters[] = {&list};
    const auto blocks = static_cast<unsigned>(std::min<size_t>(chunks, setting_blocks));
    const Code code = cuda::driver().launch_kernel(
        state.kernels.copy_list, blocks, 1, 1, kernel::List::kThreads, 1, 1, 0, stream, parameters, nullptr);
    if (code != cuda::kSuccess) return code;
    list.count = 0;
    chunks = 0;
  }
  return cuda::kSuccess;
}

/// Copies as one batch for the copy engines.
Code issue_batch(const Piece* pieces, size_t count, cuda::Stream stream) {
  cuda::Address to[kBatch], from[kBatch];
  size_t sizes[kBatch], first = 0, filled = 0;
  cuda::BatchAttributes attributes{};
  attributes.source_access_order = cuda::kSourceOrderStream;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size != 0) {
      to[filled] = address(pieces[i].dst);
      from[filled] = address(pieces[i].src);
      sizes[filled++] = pieces[i].size;
    }
    if (filled == 0 || (filled < kBatch && i + 1 < count)) continue;
    size_t failed = 0;
    const Code code =
        cuda::driver().memcpy_batch_async(to, from, sizes, filled, &attributes, &first, 1, &failed, stream);
    if (code != cuda::kSuccess) return code;
    filled = 0;
  }
  return cuda::kSuccess;
}

/// Several copies: a kernel while they are small (the gap between two copies of an engine would dominate),
/// else the copy engines, as a batch where the driver has batches.
Code issue_pieces(State& state, const Piece* pieces, size_t count, bool reached, cuda::Stream stream) {
  size_t largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, pieces[i].size);
  if (reached && state.kernels.copy_list != nullptr && count >= kMany && largest <= setting_list_max)
    return issue_list(state, pieces, count, stream);
  if (cuda::driver().memcpy_batch_async != nullptr) return issue_batch(pieces, count, stream);
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size == 0) continue;
    const Code code =
        cuda::driver().memcpy_async(address(pieces[i].dst), address(pieces[i].src), pieces[i].size, stream);
    if (code != cuda::kSuccess) return code;
  }
  return cuda::kSuccess;
}

/// After a copy engine got a small copy: the next ones may be for the copier.
void start_copier(State& state) {
  const cuda::CurrentContext current(state.context);
  if (current.code() == cuda::kSuccess) state.copier.consider_start();
}

/// Asks the driver about the ticket's event or stream; kNotReady, kSuccess or a fault.
cuda::Code ask_driver(const LaneStream& lane, cuda::Event event) {
  if (lane.stream == nullptr) return cuda::kContextIsDestroyed;  // after close()
  const cuda::CurrentContext current(lane.state->context);
  if (current.code() != cuda::kSuccess) return current.code();
  const cuda::RelaxedCapture relaxed;
  return event != nullptr ? cuda::driver().event_query(event) : cuda::driver().stream_query(lane.stream);
}

/// A stream that is long over what it does may have faulted: true when it is time to ask.
bool time_to_ask(uint64_t& check_at) {
  const uint64_t time = monotonic_ns();
  const bool due = check_at != 0 && time >= check_at;
  if (check_at == 0 || due) check_at = time + kFaultCheckInterval;
  return due;
}

Result<bool> copier_done(Ticket& ticket) {
  State& state = TicketAccess::state(ticket);
  const uint32_t number = TicketAccess::sequence(ticket);
  const cuda::Copier::Outcome outcome = state.copier.look(number);
  if (outcome == cuda::Copier::Outcome::done) [[likely]] {
    ticket = Ticket();
    return true;
  }
  if (outcome == cuda::Copier::Outcome::untouched) {
    auto again = submit(state, {}, {}, Lane::aux, "cuMemcpyAsync", [&](cuda::Stream stream) {
      for (const kernel::Item& copy : state.copier.items(number))
        if (const Code code = cuda::driver().memcpy_async(copy.dst, copy.src, copy.bytes, stream);
            code != cuda::kSuccess)
          return code;
      return cuda::kSuccess;
    });
    if (!again) return std::move(again).error();
    start_copier(state);
    ticket = std::move(*again);
    return false;
  }
  if (!time_to_ask(TicketAccess::check_at(ticket))) return false;
  const Code code = state.copier.fault();
  if (code == cuda::kSuccess) return false;
  ticket = Ticket();
  return cuda::failure(code, "cuStreamQuery",
                       "a GPU transfer failed, or an earlier GPU operation of this program did");
}

}  // namespace

void Ticket::return_event() {
  cuda::give_event(*TicketAccess::lane(*this).state, event_);
  event_ = nullptr;
}

Result<Ticket> copy_async(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                          size_t n, Lane lane) {
  const Piece piece{dst, src, n};
  return copy_pieces_async(&piece, 1, dst_memory, src_memory, lane);
}

Result<Ticket> copy_pieces_async(const Piece* pieces, size_t count, const Memory& dst_memory,
                                 const Memory& src_memory, Lane lane) {
  if (cpu_copies(dst_memory, src_memory)) {
    for (size_t i = 0; i < count; ++i)
      if (pieces[i].size != 0) std::memcpy(pieces[i].dst, pieces[i].src, pieces[i].size);
    return Ticket();
  }
  kernel::Item items[kBatch];  // what is not empty, as far as it is for the copier
  size_t filled = 0, bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size == 0) continue;
    if (filled < kBatch) items[filled] = {address(pieces[i].dst), address(pieces[i].src), pieces[i].size};
    ++filled;
    bytes += pieces[i].size;
  }
  if (filled == 0) return Ticket();
  auto found = state_for(dst_memory, src_memory);
  if (!found) return std::move(found).error();
  State& state = **found;
  const bool reached = kernel_reaches(state, dst_memory) && kernel_reaches(state, src_memory);
  const bool small = reached && filled <= kBatch && state.copier.takes(filled, bytes);
  if (small)
    if (const uint32_t number = state.copier.ring(items, filled, bytes))
      return TicketAccess::by_copier(state, number);
  const char* call = filled == 1 ? "cuMemcpyAsync" : "a list of copies";
  auto ticket = submit(state, dst_memory, src_memory, lane, call, [&](cuda::Stream stream) {
    if (filled == 1) return cuda::driver().memcpy_async(items[0].dst, items[0].src, items[0].bytes, stream);
    return issue_pieces(state, pieces, count, reached, stream);
  });
  if (small && ticket) start_copier(state);
  return ticket;
}

Result<Ticket> copy_2d_async(const Copy2D& copy, const Memory& dst_memory, const Memory& src_memory,
                             Lane lane) {
  if (copy.width == 0 || copy.height == 0) return Ticket();
  if (cpu_copies(dst_memory, src_memory)) {
    for (size_t row = 0; row < copy.height; ++row)
      std::memcpy(static_cast<char*>(copy.dst) + row * copy.dst_pitch,
                  static_cast<const char*>(copy.src) + row * copy.src_pitch, copy.width);
    return Ticket();
  }
  auto state = state_for(dst_memory, src_memory);
  if (!state) return std::move(state).error();
  if (copy.dst_pitch > (*state)->max_pitch || copy.src_pitch > (*state)->max_pitch ||
      copy.dst_pitch < copy.width || copy.src_pitch < copy.width)
    return Error(Errc::unsupported,
                 "a strided GPU copy cannot have this pitch (it is below the width or above " +
                     std::to_string((*state)->max_pitch) + " bytes): copy it in pieces");
  cuda::Memcpy2D description{};
  description.src_type = description.dst_type = cuda::kMemoryUnified;
  description.src_device = address(copy.src);
  description.src_pitch = copy.src_pitch;
  description.dst_device = address(copy.dst);
  description.dst_pitch = copy.dst_pitch;
  description.width = copy.width;
  description.height = copy.height;
  return submit(**state, dst_memory, src_memory, lane, "cuMemcpy2DAsync",
                [&](cuda::Stream stream) { return cuda::driver().memcpy_2d_async(&description, stream); });
}

Result<bool> done(Ticket& ticket) {
  if (!ticket.pending()) return true;
  if (TicketAccess::is_by_copier(ticket)) return copier_done(ticket);
  LaneStream& lane = TicketAccess::lane(ticket);
  const bool last = lane.method == Completion::hybrid &&
                    TicketAccess::sequence(ticket) == lane.submitted.load(std::memory_order_acquire);
  if (lane.method == Completion::flag || (lane.method == Completion::hybrid && !last)) {
    if (lane.flag != nullptr) [[likely]] {
      const uint32_t seen = __atomic_load_n(lane.flag, __ATOMIC_ACQUIRE);
      if (static_cast<int32_t>(seen - TicketAccess::sequence(ticket)) >= 0) {
        ticket = Ticket();
        return true;
      }
    }
    if (!time_to_ask(TicketAccess::check_at(ticket))) return false;
  }
  const cuda::Code code = ask_driver(lane, TicketAccess::event(ticket));
  if (code == cuda::kNotReady) return false;
  if (last && code == cuda::kSuccess)
    lane.seen.store(TicketAccess::sequence(ticket), std::memory_order_relaxed);
  ticket = Ticket();
  if (code == cuda::kSuccess) return true;
  lane.fault.store(code, std::memory_order_relaxed);
  return cuda::failure(code, lane.method == Completion::event ? "cuEventQuery" : "cuStreamQuery",
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
  auto ticket = copy_async(dst, dst_memory, src, src_memory, n, Lane::aux);
  if (!ticket) return std::move(ticket).error();
  return wait(*ticket);
}

CopierCounters copier_counters(const Memory& memory) {
  if (!available() || !memory.known_to_driver()) return {};
  auto state = cuda::state_of(memory);
  if (!state) return {};
  const cuda::Copier::Counters counters = (*state)->copier.counters();
  return {counters.rung - counters.untouched, counters.lives, counters.untouched};
}

const char* completion_method(const Memory& memory) {
  constexpr const char* kNames[] = {"none", "event", "flag", "query", "hybrid"};
  if (!available() || !memory.known_to_driver()) return kNames[0];
  auto state = cuda::state_of(memory);
  if (!state) return kNames[0];
  Completion method = Completion::automatic;
  for (LaneStream& lane : (*state)->lanes) {
    const std::lock_guard lock(lane.mutex);
    if (lane.stream != nullptr) method = lane.method;
  }
  return kNames[static_cast<size_t>(method)];
}

}  // namespace weft::device
