// SPDX-License-Identifier: BSD-3-Clause
#include "core/instance_lock.hpp"

#include "base/futex.hpp"

namespace weft::core {
namespace {

constexpr long kMaxSleepNs = 500'000'000;  // futex_wait() sleeps for less than one second

}  // namespace

void InstanceLock::lock_contended() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  // The thread cannot know whether others sleep, too: it takes the lock as an awaited one.
  while (word_.exchange(held_and_awaited, std::memory_order_acquire) != free)
    futex_wait(word_, held_and_awaited, kMaxSleepNs);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void InstanceLock::wake_one() { futex_wake(word_, 1); }

}  // namespace weft::core
