// SPDX-License-Identifier: BSD-3-Clause
// Control block: the synchronisation state of one process of a window, in memory that the other processes of
// its host map. Other processes reach it by messages, which its owner executes on the same words.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::rma {

/// Valid when zeroed. Followed by one counter for each rank: post_count().
struct Control {
  static constexpr uint32_t kExclusive = 1u << 31;

  alignas(64) std::atomic<uint32_t> lock;        ///< kExclusive, or the number of shared locks
  std::atomic<int32_t> holder;                   ///< 1 + rank that holds or last held it exclusively
  alignas(64) std::atomic<uint32_t> accumulate;  ///< 1: a process executes an accumulate operation
  alignas(64) std::atomic<uint32_t> completes;   ///< number of MPI_Win_complete calls for this process
  std::atomic<uint32_t> version;                 ///< changes with the memory attached to a dynamic window

  /// Number of MPI_Win_post calls of `rank` that allow this process to access its memory.
  [[nodiscard]] std::atomic<uint32_t>& post_count(int rank) {
    return reinterpret_cast<std::atomic<uint32_t>*>(this + 1)[rank];
  }
  [[nodiscard]] static size_t bytes(int ranks) {
    return sizeof(Control) + static_cast<size_t>(ranks) * sizeof(std::atomic<uint32_t>);
  }

  /// `rank`: of the process that gets the lock.
  [[nodiscard]] bool try_lock(bool exclusive, int rank) {
    uint32_t held = lock.load(std::memory_order_relaxed);
    if (exclusive) {
      if (held != 0 || !lock.compare_exchange_strong(held, kExclusive)) return false;
      holder.store(rank + 1, std::memory_order_relaxed);
      return true;
    }
    while (held < kExclusive - 1)
      if (lock.compare_exchange_weak(held, held + 1)) return true;
    return false;
  }
  void unlock(bool exclusive) {
    if (exclusive)
      lock.store(0, std::memory_order_release);
    else
      lock.fetch_sub(1, std::memory_order_release);
  }
  [[nodiscard]] bool try_accumulate() { return accumulate.exchange(1, std::memory_order_acquire) == 0; }
  void end_accumulate() { accumulate.store(0, std::memory_order_release); }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace weft::rma
