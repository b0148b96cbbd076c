// SPDX-License-Identifier: BSD-3-Clause
// Trace: ranges of MPI calls and protocol steps for profilers (nvtx.hpp) and for `weft trace` (recorder.hpp).
// While both are off, a range costs a load and a branch. Threading: ranges on any thread; open() before other
// threads call MPI.
#pragma once
#include <cstdint>

#include "base/result.hpp"

namespace weft::trace {

/// Arguments of a message or collective.
struct Details {
  uint64_t bytes = 0;
  int peer = -1;              ///< rank in the communicator; negative: none
  int tag = -1;               ///< negative: none
  uint64_t communicator = 0;  ///< its number (core::Communicator::number()); 0: none
  bool step = false;          ///< a message of the library, such as that of a collective
};

namespace detail {
[[gnu::visibility("hidden")]] extern bool on;  // written only by open()
void push(const char* name);
void pop();
void annotate(const Details& details);
void record_copy(const char* stream, uint64_t since, uint64_t bytes);
}  // namespace detail

/// Attaches to a profiler and starts the recorder, according to their settings.
[[nodiscard]] Status open();
/// From now on enabled() is true: each call takes its general entry point, which checks it (WEFT_CHECK=on).
void keep_on();
/// Returns true if a profiler is attached, the recorder runs, or calls are summed up or checked.
[[nodiscard]] inline bool enabled() { return detail::on; }

/// Range from construction to destruction on one thread; ranges nest. `name`: a string literal.
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

/// Adds arguments to the innermost range of this thread. A later call replaces them.
inline void annotate(const Details& details) {
  if (detail::on) [[unlikely]]
    detail::annotate(details);
}

/// Time stamp for record_copy(); 0 if off.
[[nodiscard]] uint64_t copy_start();
/// Records a copy in a GPU stream of the library that is complete now. `since`: copy_start() of its
/// submission; `stream`: a string literal.
inline void record_copy(const char* stream, uint64_t since, uint64_t bytes) {
  if (since != 0) [[unlikely]]
    detail::record_copy(stream, since, bytes);
}

}  // namespace weft::trace
