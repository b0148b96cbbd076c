// SPDX-License-Identifier: BSD-3-Clause
// Wakeup: futex on which a waiting rank sleeps where ranks outnumber cores (ADR 0039). The sleeper calls
// arm(), checks its condition once more, then calls sleep(); the peer stores and then calls notify(): either
// the peer sees the armed word, or the sleeper sees the store. Works in shared and in private memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace weft::transport::shm {

class Wakeup {
 public:
  /// Store that a rank in a collective operation awaits; messages always wake it. A larger value: the rank
  /// `value - kFirstRank` of a communicator.
  enum Awaited : uint32_t { kAnything, kAllRanks, kFirstRank };
  using Counter = std::atomic<uint32_t>;

  /// `sleepers` counts the sleeping ranks; whoever ends a sleep decrements it.
  void arm(Counter& sleepers) {
    if (state_.exchange(kArmed, std::memory_order_acq_rel) == kAsleep)  // another thread of the rank sleeps
      sleepers.fetch_sub(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  /// Returns after a notify() since arm(), or after `nanoseconds`. False: timed out.
  bool sleep(long nanoseconds, Counter& sleepers) {
    uint32_t expected = kArmed;
    sleepers.fetch_add(1, std::memory_order_relaxed);
    if (state_.compare_exchange_strong(expected, kAsleep)) {
      futex_wait(state_, kAsleep, nanoseconds);
      const uint32_t before = state_.exchange(kAwake, std::memory_order_acq_rel);
      if (before == kAwake) return true;
      if (before == kAsleep) sleepers.fetch_sub(1, std::memory_order_relaxed);
      futex_wake(state_);  // another thread of the rank may sleep; no notify() would see that from now on
      return false;
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  /// Call after the store that the sleeper waits for.
  void notify(Counter& sleepers) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (awake()) return;
    const uint32_t before = state_.exchange(kAwake, std::memory_order_acq_rel);
    if (before == kAsleep) sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (before != kAwake) futex_wake(state_);  // also if armed: another thread of the rank may sleep
  }
  [[nodiscard]] bool awake() const { return state_.load(std::memory_order_acquire) == kAwake; }

  /// Restricts the stores of collective operations for which this rank is woken; set before arm().
  void await(uint32_t awaited) { awaited_.store(awaited, std::memory_order_relaxed); }
  [[nodiscard]] uint32_t awaited() const { return awaited_.load(std::memory_order_relaxed); }

 private:
  enum State : uint32_t { kAwake, kArmed, kAsleep };
  std::atomic<uint32_t> state_{kAwake};
  std::atomic<uint32_t> awaited_{kAnything};
};

}  // namespace weft::transport::shm
