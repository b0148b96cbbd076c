// SPDX-License-Identifier: BSD-3-Clause
// Completion of asynchronous copies and kernels: flags, events and stream queries; work that a kernel did not
// start goes to the copy engines.
#include <sched.h>

#include <span>
#include <utility>

#include "base/clock.hpp"
#include "device/copy.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/submit.hpp"
#include "device/cuda/ticket_access.hpp"

namespace weft::device {
namespace {

using cuda::Code;
using cuda::Completion;
using cuda::State;
using cuda::TrackedStream;

constexpr uint64_t kFaultCheckIntervalNs = 1'000'000;  // a faulted context never writes its flag

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
  auto again = cuda::resubmit_items(state, items);
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
    if (again) cuda::start_resident_kernel(state);
    return again;
  }
  if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
  const Code code = list ? state.batch_copy.fault(number) : state.resident_kernel.fault();
  if (code == cuda::kSuccess) return false;
  ticket = Ticket();
  return cuda::failure(code, "cuStreamQuery",
                       "a GPU transfer failed, or an earlier GPU operation of this program did");
}

}  // namespace

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
