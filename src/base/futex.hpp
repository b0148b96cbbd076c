// SPDX-License-Identifier: BSD-3-Clause
// Futex: sleeping on a 32-bit word, in private or shared memory (futex(2)).
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace weft {

/// Sleeps while `word` is `value`, until it is woken or `nanoseconds` (below one second) have passed.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, long nanoseconds) {
  const timespec time{0, nanoseconds};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

/// Wakes all that sleep on `word`, which was changed before.
inline void futex_wake(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace weft
