// SPDX-License-Identifier: BSD-3-Clause
// Control block: the synchronisation state of one process of a window, in memory that the other processes of
// its host map. Other processes reach it by messages, which its owner executes on the same words.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rma/operation_slot.hpp"

namespace weft::rma {

/// Valid when zeroed. Followed by the words of each rank: of(). Windows of MPI_Win_create have an operation
/// slot and memory for its data for each rank behind them.
struct Control {
  static constexpr uint32_t kExclusive = 1u << 31;

  alignas(64) std::atomic<uint32_t> lock;        ///< kExclusive + rank, or the number of shared locks
  alignas(64) std::atomic<uint32_t> accumulate;  ///< 1 + rank that executes an accumulate operation; 0: none
  alignas(64) std::atomic<uint32_t> barriers;    ///< number of Window::barrier_of_host() calls of the process
  alignas(64) std::atomic<uint32_t> version;     ///< changes with the memory attached to a dynamic window

  /// Words of one rank, which alone stores to them: no atomic operation waits for their cache line.
  struct OfRank {
    std::atomic<uint32_t> posts;      ///< its MPI_Win_post calls that allow this process to access its memory
    std::atomic<uint32_t> completes;  ///< its MPI_Win_complete calls that have accessed this process's memory
    std::atomic<uint32_t> shared;     ///< 1: it holds a shared lock
  };
  [[nodiscard]] OfRank& of(int rank) { return reinterpret_cast<OfRank*>(this + 1)[rank]; }
  [[nodiscard]] static size_t bytes(int ranks, bool slots) {
    return zeroed_bytes(ranks, slots) + (slots ? static_cast<size_t>(ranks) * OperationSlot::kMaxBytes : 0);
  }
  /// The part that must be zero at first.
  [[nodiscard]] static size_t zeroed_bytes(int ranks, bool slots) {
    return slots ? slots_at(ranks) + static_cast<size_t>(ranks) * sizeof(OperationSlot) : words(ranks);
  }
  /// The slot of a rank in the control block of a window with `ranks` ranks.
  [[nodiscard]] OperationSlot& slot(int rank, int ranks) {
    return reinterpret_cast<OperationSlot*>(reinterpret_cast<std::byte*>(this) + slots_at(ranks))[rank];
  }
  /// The operands and results of an operation in that slot.
  [[nodiscard]] std::byte* slot_data(int rank, int ranks, const PostedOperation& operation) {
    OperationSlot& own = slot(rank, ranks);
    return operation.data_bytes() <= OperationSlot::kInlineBytes
               ? own.inline_data
               : reinterpret_cast<std::byte*>(&slot(ranks, ranks)) +
                     static_cast<size_t>(rank) * OperationSlot::kMaxBytes;
  }

  /// `rank`: of the process that gets the lock.
  [[nodiscard]] bool try_lock(bool exclusive, int rank) {
    uint32_t held = lock.load(std::memory_order_relaxed);
    if (exclusive) return held == 0 && lock.compare_exchange_strong(held, kExclusive + number(rank));
    while (held < kExclusive - 1)
      if (lock.compare_exchange_weak(held, held + 1)) {
        of(rank).shared.store(1, std::memory_order_relaxed);
        return true;
      }
    return false;
  }
  void unlock(bool exclusive, int rank) {
    if (exclusive) return lock.store(0, std::memory_order_release);
    of(rank).shared.store(0, std::memory_order_relaxed);
    lock.fetch_sub(1, std::memory_order_release);
  }
  /// The rank that holds the lock exclusively; -1: none.
  [[nodiscard]] int holder() const {
    const uint32_t held = lock.load(std::memory_order_relaxed);
    return held >= kExclusive ? static_cast<int>(held - kExclusive) : -1;
  }
  [[nodiscard]] bool try_accumulate(int rank) {
    uint32_t nobody = 0;
    return accumulate.compare_exchange_strong(nobody, number(rank) + 1, std::memory_order_acquire);
  }
  void end_accumulate() { accumulate.store(0, std::memory_order_release); }
  /// Releases the locks of a rank whose process has ended. Several processes may do so, any number of times.
  /// A process killed between the two steps of a shared lock leaves it behind.
  void release_all_of(int rank) {
    uint32_t theirs = kExclusive + number(rank);
    lock.compare_exchange_strong(theirs, 0);
    if (of(rank).shared.exchange(0) != 0) lock.fetch_sub(1, std::memory_order_release);
    theirs = number(rank) + 1;
    accumulate.compare_exchange_strong(theirs, 0);
  }

 private:
  [[nodiscard]] static size_t words(int ranks) {
    return sizeof(Control) + static_cast<size_t>(ranks) * sizeof(OfRank);
  }
  [[nodiscard]] static size_t slots_at(int ranks) {
    return (words(ranks) + alignof(OperationSlot) - 1) / alignof(OperationSlot) * alignof(OperationSlot);
  }
  [[nodiscard]] static uint32_t number(int rank) { return static_cast<uint32_t>(rank); }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace weft::rma
