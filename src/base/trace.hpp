// SPDX-License-Identifier: BSD-3-Clause
// Trace: NVTX ranges for profilers. NVTX_INJECTION64_PATH names the profiler's library; without a profiler a
// range costs a load and a branch. Threading: ranges on any thread; open() before other threads call MPI.
#pragma once
#include "base/result.hpp"

namespace weft::trace {

namespace detail {
[[gnu::visibility("hidden")]] extern bool on;  // written only by open()
void push(const char* name);
void pop();
}  // namespace detail

/// Attaches to a profiler according to trace.nvtx. Fails only if the setting is `on` and no profiler
/// attaches.
[[nodiscard]] Status open();
/// Returns true if a profiler is attached.
[[nodiscard]] inline bool enabled() { return detail::on; }

/// NVTX range from construction to destruction on one thread; ranges nest. `name`: a string literal.
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
