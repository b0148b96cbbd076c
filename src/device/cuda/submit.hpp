// SPDX-License-Identifier: BSD-3-Clause
// Submission of kernels into Weft's streams, with the same completion tracking as copies.
#pragma once
#include <span>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/context.hpp"

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

/// Issues work into a stream of `state` and submits a completion mark. `call` and the memories are for
/// errors.
[[nodiscard]] Result<Ticket> submit_work(State& state, const Memory& dst, const Memory& src, StreamRole role,
                                         const char* call, Issue issue);

/// Ticket of a job of state.pack_queue.
[[nodiscard]] Ticket pack_ticket(State& state, uint32_t id);

/// Submits copies to copy engines, never to kernels.
[[nodiscard]] Result<Ticket> copy_engines_async(State& state, const Memory& dst, const Memory& src,
                                                StreamRole role, std::span<const CopyOp> copies);

/// Submits copies that a kernel did not start to the copy engines.
[[nodiscard]] Result<Ticket> resubmit_items(State& state, std::span<const kernel::CopyItem> items);
/// Starts the resident kernel if due. Call after a small copy was submitted to another executor.
void start_resident_kernel(State& state);

/// Executes a cancelled pack job by copy engines; the ticket is empty if already complete.
[[nodiscard]] Result<Ticket> pack_by_copy_engines(State& state, const PackJob& job);

/// Whether a kernel in the state's context can access the memory: its own memory, memory mapped into it,
/// managed memory, staging chunks.
[[nodiscard]] bool reaches(const State& state, const Memory& memory);

}  // namespace weft::device::cuda
