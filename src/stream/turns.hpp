// SPDX-License-Identifier: BSD-3-Clause
// Turns: threads put work into the stream of a queue in the order of their calls, without the instance lock,
// since the driver may wait for the stream. Threading: functions are called under the instance lock.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/result.hpp"
#include "core/instance.hpp"

namespace weft::stream {

class Turns {
 public:
  /// Puts work into the stream: releases the lock meanwhile, unless `locked`, for which nobody may have a
  /// turn.
  template <class Work>
  [[nodiscard]] Status take(core::Instance& instance, bool locked, Work&& work) {
    if (locked) return work();
    const uint64_t turn = next_++;
    const core::Instance::Unlocked unlocked(instance);
    for (uint64_t now = now_.load(std::memory_order_acquire); now != turn;
         now = now_.load(std::memory_order_acquire))
      now_.wait(now, std::memory_order_acquire);
    Status submitted = work();
    now_.store(turn + 1, std::memory_order_release);
    now_.notify_all();
    return submitted;
  }
  /// Whether a thread puts work into the stream.
  [[nodiscard]] bool taken() const { return now_.load(std::memory_order_acquire) != next_; }
  /// Waits until all work of turns that have been taken is in the stream.
  [[nodiscard]] Status follow(core::Instance& instance, bool locked) {
    return taken() ? take(instance, locked, [] { return Status(); }) : Status();
  }

 private:
  uint64_t next_ = 0;
  std::atomic<uint64_t> now_{0};
};

}  // namespace weft::stream
