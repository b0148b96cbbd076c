// SPDX-License-Identifier: BSD-3-Clause
// Trace: named ranges for profilers, by NVTX. The profiler's library is the one that NVTX_INJECTION64_PATH
// names; without it a range costs a load and a branch. Threading: ranges from any thread; open() before other
// threads call MPI.
#pragma once
#include "base/result.hpp"

namespace weft::trace {

namespace detail {
[[gnu::visibility("hidden")]] extern bool on;  // written by open() only
void push(const char* name);
void pop();
}  // namespace detail

/// Attaches to a profiler as the setting trace.nvtx says. An error only when it is `on` and there is none.
[[nodiscard]] Status open();
/// Ranges go to a profiler.
[[nodiscard]] inline bool enabled() { return detail::on; }

/// From construction to destruction, in one thread, ranges within ranges. `name` is a literal.
class Range {
 public:
  explicit Range(const char* name) : pushed_(detail::on) {
    if (pushed_) [[unlikely]]
      detail::push(name);
  }
  ~Range() {
    if (pushed_) [[unlikely]]
      detail::pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const bool pushed_;
};

}  // namespace weft::trace
