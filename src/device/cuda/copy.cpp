// SPDX-License-Identifier: BSD-3-Clause
// Submission and completion of asynchronous copies. The path of a copy allocates nothing: one lock of the
// lane, the copy, one mark behind it.
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
  static void set(Ticket& ticket, cuda::LaneStream& lane, uint32_t sequence, cuda::Event event) {
    ticket.where_ = &lane;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  using By = Ticket::By;
  static Ticket make(By by, cuda::State& state, uint32_t number) {
    Ticket ticket;
    ticket.where_ = &state;
    ticket.sequence_ = number;
    ticket.by_ = by;
    return ticket;
  }
  static By by(const Ticket& ticket) { return ticket.by_; }
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

constexpr size_t kBatch = 64;                        // copies handed to the engines in one call
constexpr size_t kMost = kernel::List::kMax;         // that a kernel takes
constexpr uint64_t kFaultCheckInterval = 1'000'000;  // ns; gpu.md, trap 10

log::SlowPath far_memory{"gpu.far_memory",
                         "through host memory, some 10 times slower than between plain allocations"};

log::SlowPath untold{"gpu.untold", "who waits for this copy hears of it some 10 us later"};

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

/// Memory of pools and of cuMemMap is open to its own GPU, and to others only where the program says so,
/// which nobody can ask: no stream is known to reach both sides of a copy to or from another GPU.
bool no_common_stream(const Memory& dst, const Memory& src) {
  if (!dst.on_device() || !src.on_device() || (dst.context != nullptr && src.context != nullptr))
    return false;
  const auto to = cuda::context_of(dst), from = cuda::context_of(src);
  return to && from && *to != *from;
}

/// Such a copy, at once: through host memory.
Status bounce(std::span<const Piece> pieces, const Memory& dst, const Memory& src) {
  far_memory.hit("pool or cuMemMap memory is copied between two GPUs of one process");
  constexpr size_t kUnpinned = size_t{256} << 10;
  auto pinned = lease_pinned(src);  // none left: ordinary memory does
  std::vector<char> unpinned(pinned ? 0 : kUnpinned);
  char* const room = pinned ? pinned->data() : unpinned.data();
  const size_t most = pinned ? pinned->size() : kUnpinned;
  const Memory between = pinned ? pinned->memory() : Memory();
  for (const Piece& piece : pieces) {
    for (size_t at = 0; at < piece.size; at += most) {
      const size_t n = std::min(most, piece.size - at);
      WEFT_TRY(copy(room, between, static_cast<const char*>(piece.src) + at, src, n));
      WEFT_TRY(copy(static_cast<char*>(piece.dst) + at, dst, room, between, n));
    }
  }
  return {};
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

/// Copies as one batch for the copy engines.
Code issue_batch(std::span<const kernel::Item> items, cuda::Stream stream) {
  cuda::Address to[kBatch], from[kBatch];
  size_t sizes[kBatch];
  cuda::BatchAttributes attributes{};
  attributes.source_access_order = cuda::kSourceOrderStream;
  while (!items.empty()) {
    const size_t count = std::min(items.size(), kBatch);
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

/// Copies by the copy engines, several as a batch where the driver has batches.
Code issue(std::span<const kernel::Item> items, cuda::Stream stream) {
  if (items.size() > 1 && cuda::driver().memcpy_batch_async != nullptr) return issue_batch(items, stream);
  for (const kernel::Item& item : items)
    if (const Code code = cuda::driver().memcpy_async(item.dst, item.src, item.bytes, stream);
        code != cuda::kSuccess)
      return code;
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

/// Copies that a kernel left untouched, by a copy engine.
Result<bool> submit_again(Ticket& ticket, State& state, std::span<const kernel::Item> items) {
  auto again = submit(state, {}, {}, Lane::aux, "cuMemcpyAsync",
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
  const cuda::Outcome outcome = state.packs.look(id, job);
  if (outcome == cuda::Outcome::pending) {
    if (!time_to_ask(TicketAccess::check_at(ticket))) return false;
    const Code code = state.packs.fault(id);
    if (code == cuda::kSuccess) return false;
    ticket = Ticket();
    return cuda::failure(code, "cuStreamQuery",
                         "a GPU transfer failed, or an earlier GPU operation of this program did");
  }
  ticket = Ticket();
  if (outcome == cuda::Outcome::done) return true;
  if (outcome == cuda::Outcome::missed || job.tiles.awaited != 0)
    return Error(Errc::again, "the other GPU's kernel did not pack in time");
  auto again = cuda::pack_by_engines(state, job);
  if (!again) return std::move(again).error();
  ticket = std::move(*again);
  return !ticket.pending();
}

/// done() for what a kernel has.
Result<bool> kernel_done(Ticket& ticket) {
  if (TicketAccess::by(ticket) == TicketAccess::By::pack) return pack_done(ticket);
  State& state = TicketAccess::state(ticket);
  const uint32_t number = TicketAccess::sequence(ticket);
  const bool list = TicketAccess::by(ticket) == TicketAccess::By::list;
  const cuda::Outcome outcome = list ? state.lists.look(number) : state.copier.look(number);
  if (outcome == cuda::Outcome::done) [[likely]] {
    ticket = Ticket();
    return true;
  }
  if (outcome == cuda::Outcome::untouched) {
    if (list) return submit_again(ticket, state, state.lists.items(number));
    auto again = submit_again(ticket, state, state.copier.items(number));
    if (again) start_copier(state);
    return again;
  }
  if (!time_to_ask(TicketAccess::check_at(ticket))) return false;
  const Code code = list ? state.lists.fault(number) : state.copier.fault();
  if (code == cuda::kSuccess) return false;
  ticket = Ticket();
  return cuda::failure(code, "cuStreamQuery",
                       "a GPU transfer failed, or an earlier GPU operation of this program did");
}

/// By a kernel, if one is for it and takes it now; else an empty ticket.
Ticket give_to_kernel(State& state, std::span<const kernel::Item> items, const Memory& from, bool for_copier,
                      bool beside) {
  if (for_copier)
    if (const uint32_t number = state.copier.ring(items, from.staging))
      return TicketAccess::make(TicketAccess::By::copier, state, number);
  if (state.lists.takes(items, beside))
    if (const uint32_t number = state.lists.launch(items))
      return TicketAccess::make(TicketAccess::By::list, state, number);
  return {};
}

/// Pieces that are not empty, as many at a time as a kernel takes.
class Parts {
 public:
  Parts(const Piece* pieces, size_t count) : at_(pieces), end_(pieces + count) {}
  /// The next ones; empty at the end.
  [[nodiscard]] std::span<const kernel::Item> next() {
    size_t filled = 0;
    for (; at_ != end_ && filled < kMost; ++at_)
      if (at_->size != 0) items_[filled++] = {address(at_->dst), address(at_->src), at_->size};
    return {items_, filled};
  }
  [[nodiscard]] bool more() const { return at_ != end_; }

 private:
  const Piece *at_, *end_;
  kernel::Item items_[kMost];
};

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
                                 const Memory& src_memory, Lane lane, bool beside) {
  if (cpu_copies(dst_memory, src_memory)) {
    for (size_t i = 0; i < count; ++i)
      if (pieces[i].size != 0) std::memcpy(pieces[i].dst, pieces[i].src, pieces[i].size);
    return Ticket();
  }
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]] {
    WEFT_TRY(bounce({pieces, count}, dst_memory, src_memory));
    return Ticket();
  }
  Parts parts(pieces, count);
  auto part = parts.next();
  if (part.empty()) return Ticket();
  auto found = state_for(dst_memory, src_memory);
  if (!found) return std::move(found).error();
  State& state = **found;
  const bool reached =
      !parts.more() && kernel_reaches(state, dst_memory) && kernel_reaches(state, src_memory);
  const bool for_copier = reached && state.copier.takes(part);
  if (reached) {
    Ticket taken = give_to_kernel(state, part, src_memory, for_copier, beside);
    if (for_copier && TicketAccess::by(taken) == TicketAccess::By::list) start_copier(state);
    if (taken.pending()) return taken;
  }
  const char* call = part.size() == 1 ? "cuMemcpyAsync" : "a list of copies";
  auto ticket = submit(state, dst_memory, src_memory, lane, call, [&](cuda::Stream stream) {
    Code code = cuda::kSuccess;
    for (; code == cuda::kSuccess && !part.empty(); part = parts.next()) code = issue(part, stream);
    return code;
  });
  if (for_copier && ticket) start_copier(state);
  return ticket;
}

Result<Ticket> copy_told_async(void* dst, const Memory& dst_memory, const void* src, const Memory& src_memory,
                               size_t n, Lane lane, uint64_t word, uint64_t value) {
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]]
    return copy_async(dst, dst_memory, src, src_memory, n, lane);
  auto state = state_for(dst_memory, src_memory);
  if (!state) return std::move(state).error();
  return submit(**state, dst_memory, src_memory, lane, "cuMemcpyAsync", [&](cuda::Stream stream) {
    const Code code = cuda::driver().memcpy_async(address(dst), address(src), n, stream);
    if (code != cuda::kSuccess) return code;
    const Code told = cuda::driver().stream_write_value64(stream, word, value, cuda::kWriteValueDefault);
    if (told != cuda::kSuccess) untold.hit(cuda::describe(told));
    return code;
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
  if (no_common_stream(dst_memory, src_memory)) [[unlikely]]
    return Error(Errc::unsupported,
                 "a strided copy between GPUs that cannot reach each other's memory: copy it in pieces");
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

Result<Ticket> cuda::submit_work(State& state, const Memory& dst, const Memory& src, Lane lane,
                                 const char* call, Issue issue) {
  return submit(state, dst, src, lane, call,
                [&](Stream) { return issue(state.lanes[static_cast<size_t>(lane)]); });
}

Ticket cuda::pack_ticket(State& state, uint32_t id) {
  return TicketAccess::make(TicketAccess::By::pack, state, id);
}

Result<Ticket> cuda::engines_async(State& state, const Memory& dst, const Memory& src, Lane lane,
                                   std::span<const Piece> pieces) {
  Parts parts(pieces.data(), pieces.size());
  return submit(state, dst, src, lane, "a list of copies", [&](cuda::Stream stream) {
    Code code = cuda::kSuccess;
    for (auto part = parts.next(); code == cuda::kSuccess && !part.empty(); part = parts.next())
      code = issue(part, stream);
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
  if (TicketAccess::by(ticket) != TicketAccess::By::engine) return kernel_done(ticket);
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

void keep_awake(const Memory& memory) {
  if (!memory.shareable() || monotonic_ns() < cuda::Copier::next_keep()) return;
  if (auto state = cuda::state_of(memory)) (*state)->copier.keep();
}

Carriers carriers_of(size_t bytes) { return {cuda::Copier::suits(bytes), cuda::Lists::suits(bytes)}; }

CopierCounters copier_counters(const Memory& memory) {
  if (!available() || !memory.known_to_driver()) return {};
  auto state = cuda::state_of(memory);
  if (!state) return {};
  const cuda::Copier::Counters counters = (*state)->copier.counters();
  return {counters.rung - counters.untouched, counters.lives, counters.untouched};
}

ListCounters list_counters(const Memory& memory) {
  if (!available() || !memory.known_to_driver()) return {};
  auto state = cuda::state_of(memory);
  if (!state) return {};
  const cuda::Lists::Counters counters = (*state)->lists.counters();
  return {counters.launched, counters.taken_back};
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
