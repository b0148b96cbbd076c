// SPDX-License-Identifier: BSD-3-Clause
// weft_device.cuh: one-sided communication from CUDA kernels. Header-only CUDA C++ with weft_device_base.cuh
// and weft_device_queue.cuh (C++17; nvcc 12 or newer, clang); compute capability 6.0 or newer.
// docs/one-sided.md has an example.
//
// The host calls MPIX_Win_create_notify and MPIX_Win_device_handle and passes the handle to its kernels,
// which construct a weft::device::Window from it. The functions take a scope, weft::device::Thread, Warp or
// Block: all threads of the scope call with the same arguments and share the work. `rank` is a rank of the
// window, `disp` a displacement in units of the target's disp_unit, as in MPI_Put. Lengths are in bytes.
// Addresses of local buffers are memory that this GPU can access. Functions return Error::none or what went
// wrong; the first error is kept for MPIX_Win_device_status, and waits that follow it end at once.
//
// Targets of the host are reached by loads and stores, targets of other hosts by requests to the CPU, which
// the progress thread executes.
//
// Order: a put that ends before put_notify or notify on the same rank is visible to whoever has waited for
// the notification. Without it, data is visible at the end of a flush, or when the kernel has ended and, for
// other hosts, the host has called MPI_Win_flush or a fence.
#ifndef WEFT_DEVICE_CUH
#define WEFT_DEVICE_CUH

#include "weft_device_base.cuh"
#include "weft_device_queue.cuh"

namespace weft {
namespace device {

/// The window memory of one rank, with its addresses in registers: make it once, outside of loops.
class Target {
 public:
  WEFT_DEVICE_FUNCTION Target(const abi::WindowTable* table, int rank)
      : table_(table), rank_(rank), valid_(static_cast<unsigned>(rank) < static_cast<unsigned>(table->size)) {
    if (!valid_) return;
    const abi::WindowPeer peer = reinterpret_cast<const abi::WindowPeer*>(table + 1)[rank];
    base_ = peer.base;
    bytes_ = peer.bytes;
    disp_unit_ = peer.disp_unit;
    last_disp_ = peer.last_disp;
    notifications_ = peer.notifications;
    remote_ = peer.remote != 0;
    first_counter_ = peer.counters + static_cast<uint64_t>(table->size) * sizeof(uint64_t);
  }

  /// Whether the rank is on another host.
  WEFT_DEVICE_FUNCTION bool remote() const { return remote_; }
  /// Address of a displacement, for loads and stores; null: no such rank, or on another host.
  WEFT_DEVICE_FUNCTION void* pointer(uint64_t disp = 0) const {
    return valid_ && !remote_ ? reinterpret_cast<void*>(base_ + disp * disp_unit_) : nullptr;
  }
  /// Size of the memory; 0: no such rank.
  WEFT_DEVICE_FUNCTION size_t bytes() const { return bytes_; }
  /// Copies local memory to the target; ends when the local memory may be reused.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error put(Scope scope, uint64_t disp, const void* from, size_t bytes) const {
    if (!contains(disp, bytes)) return fail(scope, 0);
    if (remote_) return detail::put_remote(scope, table_, rank_, disp * disp_unit_, from, bytes, 0);
    copy_to(scope, disp, from, bytes);
    return Error::none;
  }
  /// Copies from the target to local memory.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error get(Scope scope, uint64_t disp, void* to, size_t bytes) const {
    if (!contains(disp, bytes)) return fail(scope, 0);
    if (remote_) return detail::get_remote(scope, table_, rank_, disp * disp_unit_, to, bytes);
    detail::copy(scope, reinterpret_cast<uint64_t>(to), base_ + disp * disp_unit_, bytes);
    scope.sync();
    return Error::none;
  }
  /// put(), then notify().
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error put_notify(Scope scope, uint64_t disp, const void* from, size_t bytes,
                                        uint32_t notification) const {
    if (notification >= notifications_) return fail(scope, notification);
    if (!contains(disp, bytes)) return fail(scope, 0);
    if (remote_)
      return detail::put_remote(scope, table_, rank_, disp * disp_unit_, from, bytes, signal(notification));
    copy_to(scope, disp, from, bytes);
    count(scope, notification);
    return Error::none;
  }
  /// Adds 1 to a notification counter of the target, after all that the scope has put there.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error notify(Scope scope, uint32_t notification) const {
    if (notification >= notifications_) return fail(scope, notification);
    if (remote_) return detail::put_remote(scope, table_, rank_, 0, nullptr, 0, signal(notification));
    scope.sync();
    count(scope, notification);
    return Error::none;
  }
  /// Waits until all that the scope has put to the target is there.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error flush(Scope scope) const {
    if (!valid_) return fail(scope, 0);
    if (remote_) return detail::flush_remote(scope, table_, rank_);
    detail::fence(scope);
    return Error::none;
  }

  /// Atomic operations of one thread, at system scope, on an element of the target: types of 4 and 8 bytes.
  /// Atomic with those of other kernels and with MPI's accumulate operations on that type. Precondition: the
  /// element is in the window, or the target on another host. There a kernel executes the operation, which
  /// needs a free place for one block on the target's GPU; after an error the result is 0.
  template <class T>
  WEFT_DEVICE_FUNCTION T atomic_add(uint64_t disp, T value) const;
  template <class T>
  WEFT_DEVICE_FUNCTION T atomic_exchange(uint64_t disp, T value) const {
    using Word = typename detail::WordOf<sizeof(T)>::type;
    if (remote_) return remote_atomic<T>(disp, abi::QueueRecord::exchange, unsigned_type<T>(), value, T{});
    auto* const at = static_cast<Word*>(pointer(disp));
#ifdef __CUDACC__
    return detail::bits<T>(atomicExch_system(at, detail::bits<Word>(value)));
#else
    return detail::bits<T>(__atomic_exchange_n(at, detail::bits<Word>(value), __ATOMIC_ACQ_REL));
#endif
  }
  /// Stores `value` if the element is `compare`, bit for bit; returns the element before.
  template <class T>
  WEFT_DEVICE_FUNCTION T atomic_cas(uint64_t disp, T compare, T value) const {
    using Word = typename detail::WordOf<sizeof(T)>::type;
    if (remote_)
      return remote_atomic<T>(disp, abi::QueueRecord::compare_swap, unsigned_type<T>(), value, compare);
    auto* const at = static_cast<Word*>(pointer(disp));
    Word expected = detail::bits<Word>(compare);
    const Word next = detail::bits<Word>(value);
#ifdef __CUDACC__
    expected = atomicCAS_system(at, expected, next);
#else
    __atomic_compare_exchange_n(at, &expected, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
    return detail::bits<T>(expected);
  }

 private:
  WEFT_DEVICE_FUNCTION bool contains(uint64_t disp, size_t bytes) const {
    return valid_ && disp <= last_disp_ && bytes <= bytes_ - disp * disp_unit_;
  }
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error fail(Scope scope, uint32_t notification) const {
    return detail::report(scope, detail::status_of(table_), Error::range, rank_, notification);
  }
  /// Copies to a target of this host; all threads of the scope have copied at the end.
  template <class Scope>
  WEFT_DEVICE_FUNCTION void copy_to(Scope scope, uint64_t disp, const void* from, size_t bytes) const {
    detail::copy(scope, base_ + disp * disp_unit_, reinterpret_cast<uint64_t>(from), bytes);
    scope.sync();
  }
  /// Adds 1 to a counter of a target of this host, after all that the synchronised scope has written.
  template <class Scope>
  WEFT_DEVICE_FUNCTION void count(Scope scope, uint32_t notification) const {
    if (scope.index() == 0)
      detail::add_release(first_counter_ + uint64_t{notification} * sizeof(uint64_t), 1);
  }
  /// QueueRecord::signal of a notification.
  WEFT_DEVICE_FUNCTION uint32_t signal(uint32_t notification) const {
    return static_cast<uint32_t>(table_->size) + notification + 1;
  }
  template <class T>
  WEFT_DEVICE_FUNCTION static constexpr abi::QueueRecord::Type unsigned_type() {
    return sizeof(T) == 4 ? abi::QueueRecord::uint32 : abi::QueueRecord::uint64;
  }
  template <class T>
  WEFT_DEVICE_FUNCTION static uint64_t word_of(T value) {
    return detail::bits<typename detail::WordOf<sizeof(T)>::type>(value);
  }
  template <class T>
  WEFT_DEVICE_FUNCTION T remote_atomic(uint64_t disp, abi::QueueRecord::Kind kind,
                                       abi::QueueRecord::Type type, T operand, T compare) const {
    using Word = typename detail::WordOf<sizeof(T)>::type;
    if (!contains(disp, sizeof(T))) {
      (void)fail(Thread(), 0);
      return T{};
    }
    return detail::bits<T>(static_cast<Word>(detail::atomic_remote(
        table_, rank_, disp * disp_unit_, kind, type, word_of(operand), word_of(compare))));
  }

  const abi::WindowTable* table_;
  int rank_;
  bool valid_, remote_ = false;
  uint64_t base_ = 0, bytes_ = 0, disp_unit_ = 1, last_disp_ = 0, first_counter_ = 0;
  uint32_t notifications_ = 0;
};

/// A window, in a kernel. Keeps what waits need in registers: construct it once, outside of loops.
class Window {
 public:
  WEFT_DEVICE_FUNCTION explicit Window(const void* handle)
      : table_(static_cast<const abi::WindowTable*>(handle)),
        rank_(table_->rank),
        size_(table_->size),
        arrivals_(table_->arrivals),
        own_counters_(peer(rank_).counters),
        own_notifications_(peer(rank_).notifications) {}
  WEFT_DEVICE_FUNCTION int rank() const { return rank_; }
  WEFT_DEVICE_FUNCTION int size() const { return size_; }
  WEFT_DEVICE_FUNCTION Target target(int rank) const { return {table_, rank}; }

  // Functions of Target, with the rank.
  WEFT_DEVICE_FUNCTION void* peer_pointer(int rank, uint64_t disp = 0) const {
    return target(rank).pointer(disp);
  }
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error put(Scope scope, int rank, uint64_t disp, const void* from, size_t bytes) const {
    return target(rank).put(scope, disp, from, bytes);
  }
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error get(Scope scope, int rank, uint64_t disp, void* to, size_t bytes) const {
    return target(rank).get(scope, disp, to, bytes);
  }
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error put_notify(Scope scope, int rank, uint64_t disp, const void* from, size_t bytes,
                                        uint32_t notification) const {
    return target(rank).put_notify(scope, disp, from, bytes, notification);
  }
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error notify(Scope scope, int rank, uint32_t notification) const {
    return target(rank).notify(scope, notification);
  }
  /// Waits until a notification counter of this rank is at least `value`, and subtracts `value` from it.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error wait_notify(Scope scope, uint32_t notification, uint64_t value = 1) const {
    if (notification >= own_notifications_) return fail(scope, Error::range, -1, notification);
    Error error = Error::none;
    if (scope.index() == 0) error = wait(counter_of(notification), value, -1, notification);
    return shared(scope, error);
  }
  /// Value of a notification counter of this rank.
  WEFT_DEVICE_FUNCTION uint64_t notifications(uint32_t notification) const {
    return value_of(counter_of(notification));
  }
  /// Waits until all that the scope has put to any rank is there.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error flush(Scope scope) const {
    if (table_->queue != 0) return detail::flush_remote(scope, table_, -1);
    detail::fence(scope);
    return Error::none;
  }
  /// Waits until all ranks of the window have called it; what they put before is visible then. One scope of
  /// each rank calls it at a time.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error barrier(Scope scope) const {
    if (table_->queue != 0) {  // a signal overtakes puts to third ranks
      const Error flushed = detail::flush_remote(scope, table_, -1);
      if (flushed != Error::none) return flushed;
    }
    scope.sync();
    for (int i = static_cast<int>(scope.index()); i < size(); i += static_cast<int>(scope.count()))
      if (i != rank()) signal_barrier(i);
    Error error = Error::none;
    for (int i = static_cast<int>(scope.index()); i < size(); i += static_cast<int>(scope.count()))
      if (i != rank() && error == Error::none) error = wait(static_cast<uint32_t>(i), 1, i, 0);
    return shared(scope, error);
  }

  // For the library's own kernels, which must not wait inside a step. They have windows of one host.
  WEFT_DEVICE_FUNCTION void signal_barrier(int to) const {
    if (peer(to).remote != 0)
      (void)detail::put_remote(Thread(), table_, to, 0, nullptr, 0, static_cast<uint32_t>(rank_) + 1);
    else
      detail::add_release(peer(to).counters + static_cast<uint64_t>(rank_) * sizeof(uint64_t), 1);
  }
  /// Index of the counter of a notification; that of a barrier's word is the rank that adds to it.
  WEFT_DEVICE_FUNCTION uint32_t counter_of(uint32_t notification) const {
    return static_cast<uint32_t>(size_) + notification;
  }
  /// Takes `value` from a counter of this rank if it is that large. Kernels subtract from the word in GPU
  /// memory only, so that it may be less than zero, and the sum of both words counts.
  WEFT_DEVICE_FUNCTION bool try_take(uint32_t counter, uint64_t value) const {
    if (static_cast<int64_t>(value_of(counter)) < static_cast<int64_t>(value)) return false;
    detail::add_relaxed(own_counters_ + counter * sizeof(uint64_t), ~value + 1);
    return true;
  }
  WEFT_DEVICE_FUNCTION abi::WindowStatus& status() const { return *detail::status_of(table_); }

 private:
  /// One thread waits.
  WEFT_DEVICE_FUNCTION Error wait(uint32_t counter, uint64_t value, int rank, uint32_t notification) const {
    const uint64_t begin = detail::now_ns();
    for (uint32_t polls = 1; !try_take(counter, value); ++polls) {
      if (polls % detail::kPollsBetweenChecks != 0) continue;
      const Error error = detail::end_of_wait(table_, begin, rank, notification);
      if (error != Error::none) return error;
    }
    return Error::none;
  }
  WEFT_DEVICE_FUNCTION const abi::WindowPeer& peer(int rank) const {
    return reinterpret_cast<const abi::WindowPeer*>(table_ + 1)[rank];
  }
  WEFT_DEVICE_FUNCTION uint64_t value_of(uint32_t counter) const {
    const uint64_t value = detail::load_acquire(own_counters_ + counter * sizeof(uint64_t));
    return arrivals_ == 0 ? value : value + detail::load_acquire(arrivals_ + counter * sizeof(uint64_t));
  }
  /// The error of any thread of the scope, for all of them.
  WEFT_DEVICE_FUNCTION static Error shared(Thread, Error error) { return error; }
#ifdef __CUDACC__
  WEFT_DEVICE_FUNCTION static Error shared(Warp, Error error) {
    const uint32_t all = largest(static_cast<uint32_t>(error));
    __syncwarp();  // what one thread has waited for is visible to all; the shuffles order no accesses
    return static_cast<Error>(all);
  }
  WEFT_DEVICE_FUNCTION static uint32_t largest(uint32_t value) {
    for (int distance = 16; distance != 0; distance /= 2) {
      const uint32_t other = __shfl_xor_sync(~0u, value, distance);
      value = other > value ? other : value;
    }
    return value;
  }
  WEFT_DEVICE_FUNCTION static Error shared(Block, Error error) {
    if (__syncthreads_or(error == Error::range)) return Error::range;
    if (__syncthreads_or(error == Error::timeout)) return Error::timeout;
    return __syncthreads_or(error == Error::failed) ? Error::failed : Error::none;
  }
#endif
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error fail(Scope scope, Error error, int rank, uint32_t notification) const {
    return detail::report(scope, detail::status_of(table_), error, rank, notification);
  }

  const abi::WindowTable* table_;
  int rank_, size_;
  uint64_t arrivals_, own_counters_;
  uint32_t own_notifications_;
};

/// A partitioned request in a kernel that is launched after its MPI_Start; MPIX_Prequest_device_handle
/// returns the handle. The host makes progress for it: a thread in MPI_Wait, for example.
class PartitionedRequest {
 public:
  WEFT_DEVICE_FUNCTION explicit PartitionedRequest(const void* handle)
      : table_(static_cast<abi::PartitionTable*>(const_cast<void*>(handle))),
        words_(reinterpret_cast<uint64_t>(table_ + 1)),
        start_(detail::load_acquire(reinterpret_cast<uint64_t>(&table_->starts))),
        partitions_(table_->partitions) {}
  WEFT_DEVICE_FUNCTION int partitions() const { return partitions_; }
  /// MPI_Pready: what the scope has written before is sent. Error::range: no such partition, or not started.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error pready(Scope scope, int partition) const {
    if (!valid(partition)) return Error::range;
    scope.sync();
    if (scope.index() == 0) detail::store_release(word(partition), start_);
    return Error::none;
  }
  /// MPI_Parrived.
  WEFT_DEVICE_FUNCTION bool parrived(int partition) const {
    return valid(partition) && detail::load_acquire(word(partition)) == start_;
  }
  /// Waits until the partition has arrived. Error::failed: the operation has ended with an error.
  template <class Scope>
  WEFT_DEVICE_FUNCTION Error wait_arrived(Scope scope, int partition) const {
    if (!valid(partition)) return Error::range;
    if (scope.index() == 0) wait(partition);
    scope.sync();
    return parrived(partition) ? Error::none : static_cast<Error>(detail::load_volatile(&table_->error));
  }

 private:
  WEFT_DEVICE_FUNCTION bool valid(int partition) const {
    return start_ != 0 && static_cast<unsigned>(partition) < static_cast<unsigned>(partitions_);
  }
  WEFT_DEVICE_FUNCTION uint64_t word(int partition) const {
    return words_ + static_cast<uint64_t>(partition) * sizeof(uint64_t);
  }
  WEFT_DEVICE_FUNCTION void wait(int partition) const {
    const uint64_t begin = detail::now_ns();
    for (uint32_t polls = 1; !parrived(partition); ++polls) {
      if (polls % detail::kPollsBetweenChecks != 0) continue;
      Error error = Error::none;
      if (detail::load_volatile(&table_->cancelled) != 0)
        error = Error::failed;
      else if (detail::now_ns() - begin > table_->timeout_ns)
        error = Error::timeout;
      if (error == Error::none) continue;
      *const_cast<volatile uint32_t*>(&table_->error) = static_cast<uint32_t>(error);
#ifdef __CUDACC__
      __threadfence_system();
#endif
      return;
    }
  }

  abi::PartitionTable* table_;
  uint64_t words_, start_;
  int partitions_;
};

template <class T>
WEFT_DEVICE_FUNCTION T Target::atomic_add(uint64_t disp, T value) const {
  if (remote_) {
    constexpr bool kInteger = static_cast<T>(0.5) == 0;
    constexpr auto kFloat = sizeof(T) == 4 ? abi::QueueRecord::float32 : abi::QueueRecord::float64;
    return remote_atomic<T>(disp, abi::QueueRecord::add, kInteger ? unsigned_type<T>() : kFloat, value, T{});
  }
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 8 && static_cast<T>(0.5) == 0) {
    using Word = unsigned long long;
    return static_cast<T>(atomicAdd_system(static_cast<Word*>(pointer(disp)), static_cast<Word>(value)));
  } else {
    return atomicAdd_system(static_cast<T*>(pointer(disp)), value);
  }
#else
  using Word = typename detail::WordOf<sizeof(T)>::type;
  T seen = detail::bits<T>(__atomic_load_n(static_cast<const Word*>(pointer(disp)), __ATOMIC_RELAXED));
  for (;;) {
    const T before = atomic_cas(disp, seen, static_cast<T>(seen + value));
    if (std::memcmp(&before, &seen, sizeof seen) == 0) return before;
    seen = before;
  }
#endif
}

}  // namespace device
}  // namespace weft
#endif  // WEFT_DEVICE_CUH
