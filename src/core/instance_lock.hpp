// SPDX-License-Identifier: BSD-3-Clause
// InstanceLock: the lock of an Instance. It counts the threads that sleep for it, so that a thread which
// takes it again and again, the progress thread, can give way: the lock is not fair, and a thread that wakes
// up may not get it for long.
// Threading: any thread. A thread that has the lock does not take it again.
#pragma once
#include <atomic>
#include <cstdint>

namespace weft::core {

class InstanceLock {
 public:
  void lock() {
    if (!try_lock()) [[unlikely]]
      lock_contended();
  }
  [[nodiscard]] bool try_lock() {
    uint32_t expected = free;
    return word_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  /// Does not access the object any more once another thread can have the lock.
  void unlock() {
    if (word_.exchange(free, std::memory_order_release) != held) [[unlikely]]
      wake_one();
  }
  /// Whether a thread sleeps for the lock, or has just been woken and does not have it yet.
  [[nodiscard]] bool awaited() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  // `held_and_awaited`: threads may sleep; whoever unlocks wakes one.
  enum Word : uint32_t { free, held, held_and_awaited };
  [[gnu::cold]] void lock_contended();
  [[gnu::cold]] void wake_one();

  std::atomic<uint32_t> word_{free};  ///< futex
  std::atomic<uint32_t> waiting_{0};  ///< threads in lock_contended()
};

}  // namespace weft::core
