// SPDX-License-Identifier: BSD-3-Clause
// Bell: lets a process sleep until another one has something for it, where ranks outnumber cores: a rank that
// only offers its core again and again keeps those that have work waiting.
// The sleeper arms the bell, looks once more for what it waits for, and sleeps; whoever has made something
// visible to it rings. Works in shared and in private memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace weft::transport::shm {

class Bell {
 public:
  void arm() { armed_.store(1, std::memory_order_seq_cst); }
  /// Returns when the bell has rung since arm(), or after `nanoseconds`. False: it has not rung.
  bool sleep(long nanoseconds) {
    futex_wait(armed_, 1, nanoseconds);
    return armed_.exchange(0, std::memory_order_acquire) == 0;
  }
  /// To be called after a store that the sleeper looks for. Without a fence, which every message would pay
  /// for: it may miss one that is just being armed, whose sleep is short therefore.
  void ring() {
    if (armed_.load(std::memory_order_relaxed) != 0 && armed_.exchange(0, std::memory_order_acq_rel) != 0)
        [[unlikely]]
      futex_wake(armed_);
  }

 private:
  std::atomic<uint32_t> armed_{0};
};

}  // namespace weft::transport::shm
