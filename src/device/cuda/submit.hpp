// SPDX-License-Identifier: BSD-3-Clause
// Work other than copies in a lane of a context, with the completion that copies have.
#pragma once
#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {

/// A call of `issue(stream)`, which returns the driver's code. Valid as long as what it was made of.
class Issue {
 public:
  template <class F>
  explicit Issue(F& issue)
      : object_(&issue),
        call_([](void* object, Stream stream) { return (*static_cast<F*>(object))(stream); }) {}
  Code operator()(Stream stream) const { return call_(object_, stream); }

 private:
  void* object_;
  Code (*call_)(void*, Stream);
};

/// Issues work into a lane of `state` and marks its end. `call` and the memories are for errors.
[[nodiscard]] Result<Ticket> submit_work(State& state, const Memory& dst, const Memory& src, Lane lane,
                                         const char* call, Issue issue);

/// A kernel in the state's context may touch the memory: its own, what was mapped into it, managed memory,
/// staging chunks.
[[nodiscard]] bool reaches(const State& state, const Memory& memory);

}  // namespace weft::device::cuda
