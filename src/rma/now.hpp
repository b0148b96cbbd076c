// SPDX-License-Identifier: BSD-3-Clause
// Common cases of operations and synchronisation on mapped host memory: inline members of Window for the
// entry points (api/now.hpp). A case that is not common returns false, or null, without any effect.
// Threading: only while one thread calls MPI.
#pragma once
#include <atomic>
#include <cstring>
#include <utility>

#include "base/copy.hpp"
#include "base/counters.hpp"
#include "rma/window.hpp"
#include "transport/shm/shm.hpp"

namespace weft::rma {

/// Counters of operations.
struct OperationCounters {
  counters::Counter puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes, compare_and_swaps;
};
[[gnu::visibility("hidden")]] extern OperationCounters g_operations;

/// The processor may still hold stores of operations that a flush has completed. Other processes see them in
/// order, so that only a later load of this process could overtake them: gets execute the fence. Accumulate
/// operations need none: they begin with an atomic operation.
inline void fence_stores(core::Instance& instance) {
  if (!instance.stores_unfenced) [[likely]]
    return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  instance.stores_unfenced = false;
}

/// Holds the accumulate lock of a control block until destruction.
struct AccumulateScope {
  explicit AccumulateScope(Control& of) : control(of) {}
  ~AccumulateScope() { control.end_accumulate(); }
  AccumulateScope(const AccumulateScope&) = delete;
  AccumulateScope& operator=(const AccumulateScope&) = delete;
  Control& control;
};

// Operations on mapped memory of a target whose accumulate lock is held, on contiguous host memory of `n`
// bytes.

/// `function`: of `op`, for `count` elements. `result`: null, or gets the value before.
[[gnu::always_inline]] inline void update_mapped(std::byte* target, const void* origin, void* result,
                                                 datatype::ReduceOp op, datatype::ReduceFn function,
                                                 uint64_t count, uint64_t n) {
  if (result != nullptr) copy_bytes(result, target, n);
  if (op == datatype::ReduceOp::replace)
    copy_bytes(target, origin, n);
  else if (op != datatype::ReduceOp::no_op)
    function(origin, target, target, count);
}

[[gnu::always_inline]] inline void swap_mapped(std::byte* target, const void* origin, const void* compare,
                                               void* result, uint64_t n) {
  const bool equal = n == 8 ? std::memcmp(target, compare, 8) == 0 : std::memcmp(target, compare, n) == 0;
  copy_bytes(result, target, n);
  if (equal) copy_bytes(target, origin, n);
}

inline Peer* Window::find_peer(int rank) {
  auto* const first = reinterpret_cast<std::byte*>(peers.data());
  const size_t offset = static_cast<size_t>(static_cast<uint32_t>(rank)) * sizeof(Peer);
  const auto end = static_cast<size_t>(reinterpret_cast<std::byte*>(peers.data() + peers.size()) - first);
  return offset < end ? reinterpret_cast<Peer*>(first + offset) : nullptr;
}

inline std::byte* Window::accessible(int rank, int64_t disp, uint64_t n) {
  const Peer* const found = find_peer(rank);
  if (found == nullptr) [[unlikely]]
    return nullptr;
  const Peer& peer = *found;
  int64_t start = 0;
  if (__builtin_mul_overflow(disp, peer.disp_unit, &start) || n > peer.accessible ||
      static_cast<uint64_t>(start) > peer.accessible - n) [[unlikely]]
    return nullptr;
  return peer.host + start;
}

inline void Window::put_now(std::byte* target, const void* origin, uint64_t n) {
  count_use();
  g_operations.puts.add();
  g_operations.put_bytes.add(n);
  instance.stores_unfenced = true;
  copy_bytes(target, origin, n);
}

inline void Window::get_now(const std::byte* target, void* result, uint64_t n) {
  count_use();
  g_operations.gets.add();
  g_operations.get_bytes.add(n);
  fence_stores(instance);
  copy_bytes(result, target, n);
}

inline bool Window::accumulate_now(int rank, std::byte* target, const void* origin, void* result,
                                   datatype::ReduceOp op, datatype::ReduceFn function, uint64_t count,
                                   uint64_t n) {
  Control& control = *peers[static_cast<size_t>(rank)].control;
  if (!control.try_accumulate(own_rank_)) [[unlikely]]
    return false;
  const AccumulateScope scope(control);
  count_use();
  g_operations.accumulates.add();
  g_operations.accumulate_bytes.add(n);
  instance.stores_unfenced = true;
  update_mapped(target, origin, result, op, function, count, n);
  return true;
}

inline bool Window::compare_and_swap_now(int rank, std::byte* target, const void* origin, const void* compare,
                                         void* result, uint64_t n) {
  Control& control = *peers[static_cast<size_t>(rank)].control;
  if (!control.try_accumulate(own_rank_)) [[unlikely]]
    return false;
  const AccumulateScope scope(control);
  count_use();
  g_operations.compare_and_swaps.add();
  instance.stores_unfenced = true;
  swap_mapped(target, origin, compare, result, n);
  return true;
}

inline bool Window::flush_now(int rank) {
  const Peer* const peer = find_peer(rank);
  if (peer == nullptr || peer->lock == Lock::none || !flushed(*peer) || calls_until_poll_ == 0) [[unlikely]]
    return false;
  --calls_until_poll_;
  std::atomic_thread_fence(std::memory_order_acq_rel);  // stores: see fence_stores()
  return true;
}

inline bool Window::lock_now(bool exclusive, int rank) {
  Peer* const found = find_peer(rank);
  if (found == nullptr || starting_ || lock_all_ || fence_) [[unlikely]]
    return false;
  Peer& peer = *found;
  if (peer.lock != Lock::none || peer.control == nullptr || instance.failures.changes() != 0 ||
      !peer.control->try_lock(exclusive, own_rank_)) [[unlikely]]
    return false;
  peer.lock = exclusive ? Lock::exclusive : Lock::shared;
  peer.checked = true;
  ++locks_;
  peer.accessible = peer.host != nullptr ? peer.size : 0;
  return true;
}

inline bool Window::unlock_now(int rank) {
  Peer* const found = find_peer(rank);
  if (found == nullptr || lock_all_) [[unlikely]]
    return false;
  Peer& peer = *found;
  if (peer.lock == Lock::none || !peer.checked || peer.control == nullptr || !flushed(peer) ||
      calls_until_poll_ == 0 || (instance.shm != nullptr && instance.shm->wakeups_enabled())) [[unlikely]]
    return false;
  --calls_until_poll_;
  peer.control->unlock(std::exchange(peer.lock, Lock::none) == Lock::exclusive, own_rank_);
  --locks_;
  peer.accessible = 0;  // as no other epoch is open beside one of MPI_Win_lock
  return true;
}

/// Wakes a process that sleeps in a wait for a control block.
inline void Window::notify(const Peer& peer) const {
  if (instance.shm != nullptr && peer.process != instance.self) instance.shm->notify(peer.process);
}

}  // namespace weft::rma
