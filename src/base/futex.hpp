// SPDX-License-Identifier: BSD-3-Clause
// Futex: wait on a 32-bit word in private or shared memory (futex(2)).
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace weft {

/// Sleeps while `word` == `value`, until a wake-up or for at most `nanoseconds` (less than one second).
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, long nanoseconds) {
  const timespec time{0, nanoseconds};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

/// Wakes at most `count` waiters of `word`. The caller changes `word` first.
inline void futex_wake(const std::atomic<uint32_t>& word, int count = INT_MAX) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace weft
