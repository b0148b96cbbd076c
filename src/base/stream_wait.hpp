// SPDX-License-Identifier: BSD-3-Clause
// StreamWait: the GPU stream that waits for the MPI call which a thread executes (stream/order/). Threading:
// of one thread, under the instance lock.
#pragma once
#include <cstdint>

namespace weft {

namespace wait_table {
/// A record of the wait table (wait_table.hpp) names the stream in the field `operation`, which only waits
/// for nonblocking collectives use otherwise: "@7f5a10", the mark and the handle of the stream, hexadecimal.
inline constexpr char kStreamMark = '@';
}  // namespace wait_table

/// Declares for its lifetime that a stream waits for the calls of this thread.
class StreamWait {
 public:
  /// `handle`: of the stream, as the program knows it.
  explicit StreamWait(const void* handle) : stream(reinterpret_cast<uintptr_t>(handle)) { current_ = this; }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;
  /// Ranks of a message that is waited for: of any source, or no message is.
  static constexpr int kAnyRank = -1, kNoMessage = -2;
  /// Called again and again in waits of some ms. `rank`: of the message, in its communicator; `now`:
  /// monotonic_ns().
  virtual void waits(int rank, uint64_t now) = 0;
  const uint64_t stream;
  /// That of this thread; null: none.
  [[nodiscard]] static StreamWait* current() { return current_; }

 protected:
  ~StreamWait() { current_ = nullptr; }

 private:
  [[gnu::tls_model("initial-exec")]] static constinit thread_local StreamWait* current_;
};

}  // namespace weft
