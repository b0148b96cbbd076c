// SPDX-License-Identifier: BSD-3-Clause
// Completion of asynchronous copies and kernels: flags, events and stream queries; work that a kernel did not
// start goes to the copy engines.
#include <sched.h>

#include <span>
#include <utility>

#include "base/clock.hpp"
#include "device/copy.hpp"
#include "device/queue/submit.hpp"
#include "device/queue/work_queue.hpp"

namespace weft::device {
namespace {

using cuda::Code;
using cuda::Completion;
using cuda::Outcome;
using cuda::TrackedStream;
using cuda::WorkQueue;

constexpr uint64_t kFaultCheckIntervalNs = 1'000'000;  // a faulted context never writes its flag

/// Queries the ticket's event or stream; returns kNotReady, kSuccess or the error.
cuda::Code query_driver(const TrackedStream& tracked, cuda::Event event) {
  if (tracked.stream == nullptr) return cuda::kContextIsDestroyed;  // after close()
  const cuda::CurrentContext current(tracked.queue->context);
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

Error gpu_fault(Code code, const char* call) {
  return cuda::failure(code, call, "a GPU transfer failed, or an earlier GPU operation of this program did");
}

/// done() for work of a kernel. resubmit(outcome) gives work that the kernel did not execute to copy engines,
/// or fails.
template <class Poll, class Fault, class Resubmit>
Result<bool> kernel_done(Ticket& ticket, Poll&& poll, Fault&& fault, Resubmit&& resubmit) {
  const Outcome outcome = poll();
  if (outcome == Outcome::done) [[likely]] {
    ticket = Ticket();
    return true;
  }
  if (outcome == Outcome::pending) {
    if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
    const Code code = fault();
    if (code == cuda::kSuccess) return false;
    ticket = Ticket();
    return gpu_fault(code, "cuStreamQuery");
  }
  Result<Ticket> again = resubmit(outcome);
  ticket = Ticket();
  if (!again) return std::move(again).error();
  ticket = std::move(*again);
  return !ticket.pending();
}

Result<bool> resident_kernel_done(Ticket& ticket, WorkQueue& queue, uint32_t number) {
  cuda::ResidentKernel& resident = queue.resident_kernel;
  return kernel_done(
      ticket, [&] { return resident.poll(number); }, [&] { return resident.fault(); },
      [&](Outcome) {
        const kernel::Accumulate* const accumulate = resident.accumulate(number);
        auto again = accumulate != nullptr ? cuda::launch_accumulate(queue, *accumulate)
                                           : cuda::resubmit_items(queue, resident.items(number));
        if (again) cuda::start_resident_kernel(queue);
        return again;
      });
}

Result<bool> batch_copy_done(Ticket& ticket, WorkQueue& queue, uint32_t number) {
  cuda::BatchCopy& batch = queue.batch_copy;
  return kernel_done(
      ticket, [&] { return batch.poll(number); }, [&] { return batch.fault(number); },
      [&](Outcome) { return cuda::resubmit_items(queue, batch.items(number)); });
}

Result<bool> pack_done(Ticket& ticket, WorkQueue& queue, uint32_t id) {
  cuda::PackJob job;
  return kernel_done(
      ticket, [&] { return queue.pack_queue.poll(id, job); }, [&] { return queue.pack_queue.fault(id); },
      [&](Outcome outcome) -> Result<Ticket> {
        if (outcome == Outcome::timed_out || job.tiles.wait_flags != 0)
          return Error(Errc::again, "timeout: the kernel of the other GPU did not pack the tiles in time");
        return cuda::pack_by_copy_engines(queue, job);
      });
}

/// done() for work that a copy engine executes.
Result<bool> stream_done(Ticket& ticket) {
  TrackedStream& tracked = TicketAccess::tracked(ticket);
  const bool last = tracked.method == Completion::hybrid &&
                    TicketAccess::sequence(ticket) == tracked.submitted.load(std::memory_order_acquire);
  if (tracked.method == Completion::flag || (tracked.method == Completion::hybrid && !last)) {
    if (tracked.flag != nullptr) [[likely]] {
      const uint32_t sequence = TicketAccess::sequence(ticket);
      const auto reached = [&](uint32_t seen) { return static_cast<int32_t>(seen - sequence) >= 0; };
      if (reached(__atomic_load_n(tracked.flag, __ATOMIC_ACQUIRE)) ||
          (tracked.method == Completion::hybrid && reached(tracked.seen.load(std::memory_order_acquire)))) {
        ticket = Ticket();
        return true;
      }
    }
    if (!fault_check_due(TicketAccess::fault_check_at(ticket))) return false;
  }
  const cuda::Code code = query_driver(tracked, TicketAccess::event(ticket));
  if (code == cuda::kNotReady) return false;
  if (last && code == cuda::kSuccess)
    tracked.seen.store(TicketAccess::sequence(ticket), std::memory_order_release);
  ticket = Ticket();
  if (code == cuda::kSuccess) return true;
  tracked.fault.store(code, std::memory_order_relaxed);
  return gpu_fault(code, tracked.method == Completion::event ? "cuEventQuery" : "cuStreamQuery");
}

}  // namespace

Result<bool> done(Ticket& ticket) {
  if (!ticket.pending()) return true;
  const uint32_t number = TicketAccess::sequence(ticket);
  switch (TicketAccess::executor(ticket)) {
    case TicketAccess::Executor::copy_engine:
      return stream_done(ticket);
    case TicketAccess::Executor::resident_kernel:
      return resident_kernel_done(ticket, TicketAccess::queue(ticket), number);
    case TicketAccess::Executor::batch_copy:
      return batch_copy_done(ticket, TicketAccess::queue(ticket), number);
    case TicketAccess::Executor::pack_kernel:
      return pack_done(ticket, TicketAccess::queue(ticket), number);
  }
  return true;
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
  auto queue = cuda::queue_of(memory);
  if (!queue) return kNames[0];
  return kNames[static_cast<size_t>((*queue)->streams.front().method)];
}

}  // namespace weft::device
