// SPDX-License-Identifier: BSD-3-Clause
// Wakeup: futex on which a waiting rank sleeps where ranks outnumber cores; repeated sched_yield() would
// delay the ranks that have work. The sleeper calls arm(), checks its condition once more, then calls
// sleep(); the peer calls notify() after its store. Works in shared and in private memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace weft::transport::shm {

class Wakeup {
 public:
  void arm() { armed_.store(1, std::memory_order_seq_cst); }
  /// Returns after a notify() since arm(), or after `nanoseconds`. False: timed out.
  bool sleep(long nanoseconds) {
    futex_wait(armed_, 1, nanoseconds);
    return armed_.exchange(0, std::memory_order_acquire) == 0;
  }
  /// Call after the store that the sleeper waits for. Has no fence, which would slow down every message: a
  /// concurrent arm() may be missed, so callers keep the sleep short.
  void notify() {
    if (armed_.load(std::memory_order_relaxed) != 0 && armed_.exchange(0, std::memory_order_acq_rel) != 0)
        [[unlikely]]
      futex_wake(armed_);
  }

 private:
  std::atomic<uint32_t> armed_{0};
};

}  // namespace weft::transport::shm
