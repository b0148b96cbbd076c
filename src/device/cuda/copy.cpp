// SPDX-License-Identifier: BSD-3-Clause
// Submission and completion of asynchronous copies. The path of a copy allocates nothing: one lock of the
// lane, the copy, one mark behind it.
#include "device/copy.hpp"

#include <sched.h>
#include <time.h>

#include <cstring>

#include "device/cuda/context.hpp"

namespace weft::device {

struct TicketAccess {
  static void set(Ticket& ticket, cuda::LaneStream& lane, uint32_t sequence, cuda::Event event) {
    ticket.stream_ = &lane;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  static cuda::LaneStream& lane(const Ticket& ticket) {
    return *static_cast<cuda::LaneStream*>(ticket.stream_);
  }
  static uint32_t sequence(const Ticket& ticket) { return ticket.sequence_; }
  static cuda::Event event(const Ticket& ticket) { return ticket.event_; }
  static uint64_t& check_at(Ticket& ticket) { return ticket.check_at_; }
};

namespace {

using cuda::Completion;
using cuda::LaneStream;
using cuda::State;

constexpr uint64_t kFaultCheckInterval = 1'000'000;  // ns; gpu.md, trap 10

uint64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

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

/// Runs `issue(stream)` (returns a driver code) in a lane of the right context and marks its end.
template <class Issue>
Result<Ticket> submit(const Memory& dst, const Memory& src, Lane which, const char* call, Issue&& issue) {
  auto state = state_for(dst, src);
  if (!state) return std::move(state).error();
  LaneStream& lane = (*state)->lanes[static_cast<size_t>(which)];
  const std::lock_guard lock(lane.mutex);
  const cuda::CurrentContext current((*state)->context);
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

/// Asks the driver about the ticket's event or stream; kNotReady, kSuccess or a fault.
cuda::Code ask_driver(const LaneStream& lane, cuda::Event event) {
  if (lane.stream == nullptr) return cuda::kContextIsDestroyed;  // after close()
  const cuda::CurrentContext current(lane.state->context);
  if (current.code() != cuda::kSuccess) return current.code();
  const cuda::RelaxedCapture relaxed;
  return event != nullptr ? cuda::driver().event_query(event) : cuda::driver().stream_query(lane.stream);
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
  bool empty = true;
  for (size_t i = 0; i < count && empty; ++i) empty = pieces[i].size == 0;
  if (empty) return Ticket();
  return submit(dst_memory, src_memory, lane, "cuMemcpyAsync", [&](cuda::Stream stream) {
    for (size_t i = 0; i < count; ++i) {
      if (pieces[i].size == 0) continue;
      const cuda::Code code =
          cuda::driver().memcpy_async(address(pieces[i].dst), address(pieces[i].src), pieces[i].size, stream);
      if (code != cuda::kSuccess) [[unlikely]]
        return code;
    }
    return cuda::kSuccess;
  });
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
  return submit(dst_memory, src_memory, lane, "cuMemcpy2DAsync",
                [&](cuda::Stream stream) { return cuda::driver().memcpy_2d_async(&description, stream); });
}

Result<bool> done(Ticket& ticket) {
  if (!ticket.pending()) return true;
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
    uint64_t& check_at = TicketAccess::check_at(ticket);
    const uint64_t time = now();
    if (check_at == 0) check_at = time + kFaultCheckInterval;
    if (time < check_at) return false;
    check_at = time + kFaultCheckInterval;
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
