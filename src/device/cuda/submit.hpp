// SPDX-License-Identifier: BSD-3-Clause
// Work other than copies in a lane of a context, with the completion that copies have.
#pragma once
#include <span>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {

/// A call of `issue(lane)`, which returns the driver's code. Valid as long as what it was made of.
class Issue {
 public:
  template <class F>
  explicit Issue(F& issue)
      : object_(&issue),
        call_([](void* object, LaneStream& lane) { return (*static_cast<F*>(object))(lane); }) {}
  Code operator()(LaneStream& lane) const { return call_(object_, lane); }

 private:
  void* object_;
  Code (*call_)(void*, LaneStream&);
};

/// Issues work into a lane of `state` and marks its end. `call` and the memories are for errors.
[[nodiscard]] Result<Ticket> submit_work(State& state, const Memory& dst, const Memory& src, Lane lane,
                                         const char* call, Issue issue);

/// The ticket of a job of state.packs.
[[nodiscard]] Ticket pack_ticket(State& state, uint32_t id);

/// Copies by the copy engines, whatever kernels could do.
[[nodiscard]] Result<Ticket> engines_async(State& state, const Memory& dst, const Memory& src, Lane lane,
                                           std::span<const Piece> pieces);

/// What a pack kernel left untouched, by copy engines; with an empty ticket when it is done already.
[[nodiscard]] Result<Ticket> pack_by_engines(State& state, const PackJob& job);

/// A kernel in the state's context may touch the memory: its own, what was mapped into it, managed memory,
/// staging chunks.
[[nodiscard]] bool reaches(const State& state, const Memory& memory);

}  // namespace weft::device::cuda
