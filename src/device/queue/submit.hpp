// SPDX-License-Identifier: BSD-3-Clause
// Tickets, and the submission of kernels and copies whose completion they track.
#pragma once
#include <span>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/queue/work_queue.hpp"

namespace weft::device {

/// Access to the members of tickets, for their submission and completion.
struct TicketAccess {
  static void set(Ticket& ticket, cuda::TrackedStream& tracked, uint32_t sequence, cuda::Event event) {
    ticket.owner_ = &tracked;
    ticket.sequence_ = sequence;
    ticket.event_ = event;
  }
  using Executor = Ticket::Executor;
  static Ticket make(Executor executor, cuda::WorkQueue& queue, uint32_t number) {
    Ticket ticket;
    ticket.owner_ = &queue;
    ticket.sequence_ = number;
    ticket.executor_ = executor;
    return ticket;
  }
  static Executor executor(const Ticket& ticket) { return ticket.executor_; }
  static cuda::WorkQueue& queue(const Ticket& ticket) {
    return *static_cast<cuda::WorkQueue*>(ticket.owner_);
  }
  static cuda::TrackedStream& tracked(const Ticket& ticket) {
    return *static_cast<cuda::TrackedStream*>(ticket.owner_);
  }
  static uint32_t sequence(const Ticket& ticket) { return ticket.sequence_; }
  static cuda::Event event(const Ticket& ticket) { return ticket.event_; }
  static uint64_t& fault_check_at(Ticket& ticket) { return ticket.fault_check_at_; }
};

}  // namespace weft::device

namespace weft::device::cuda {

/// Non-owning reference to a callable `issue(tracked)` that returns a driver code.
class Issue {
 public:
  template <class F>
  explicit Issue(F& issue)
      : object_(&issue),
        call_([](void* object, TrackedStream& tracked) { return (*static_cast<F*>(object))(tracked); }) {}
  Code operator()(TrackedStream& tracked) const { return call_(object_, tracked); }

 private:
  void* object_;
  Code (*call_)(void*, TrackedStream&);
};

/// Issues work into a stream of `queue` and submits a completion mark. `call` and the memories are for
/// errors.
[[nodiscard]] Result<Ticket> submit_work(WorkQueue& queue, const Memory& dst, const Memory& src,
                                         StreamRole role, const char* call, Issue issue);

/// Ticket of a job of queue.pack_queue.
[[nodiscard]] Ticket pack_ticket(WorkQueue& queue, uint32_t id);

/// Submits copies to copy engines, never to kernels.
[[nodiscard]] Result<Ticket> copy_engines_async(WorkQueue& queue, const Memory& dst, const Memory& src,
                                                StreamRole role, std::span<const CopyOp> copies);

/// Submits copies that a kernel did not start to the copy engines.
[[nodiscard]] Result<Ticket> resubmit_items(WorkQueue& queue, std::span<const kernel::CopyItem> items);
/// Launches an accumulate operation.
[[nodiscard]] Result<Ticket> launch_accumulate(WorkQueue& queue, kernel::Accumulate accumulate);
/// Starts the resident kernel if due. Call after a small copy was submitted to another executor.
void start_resident_kernel(WorkQueue& queue);

/// Executes a cancelled pack job by copy engines; the ticket is empty if already complete.
[[nodiscard]] Result<Ticket> pack_by_copy_engines(WorkQueue& queue, const PackJob& job);

[[nodiscard]] inline Error no_context(Code code) {
  return failure(code, "cuCtxPushCurrent", "the context of the GPU stream cannot be used");
}

/// Whether a kernel in the queue's context can access the memory: its own memory, memory mapped into it,
/// managed memory, staging chunks.
[[nodiscard]] bool reaches(const WorkQueue& queue, const Memory& memory);
/// Whether the memory lies on the queue's GPU.
[[nodiscard]] bool owns(const WorkQueue& queue, const Memory& memory);

}  // namespace weft::device::cuda
