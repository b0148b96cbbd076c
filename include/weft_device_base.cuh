// SPDX-License-Identifier: BSD-3-Clause
// Part of weft_device.cuh: errors, scopes, the binary interface between library and kernels, memory accesses.
#ifndef WEFT_DEVICE_BASE_CUH
#define WEFT_DEVICE_BASE_CUH

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define WEFT_DEVICE_FUNCTION __device__ __forceinline__
#define WEFT_DEVICE_SLOW_PATH \
  inline __device__ __noinline__  ///< takes no registers from the paths inside a host
#else
#include <chrono>
#include <thread>
#define WEFT_DEVICE_FUNCTION inline
#define WEFT_DEVICE_SLOW_PATH inline
#endif

namespace weft {
namespace device {

enum class Error : uint32_t {
  none = 0,
  range = 1,    ///< outside of the target's window, or no such rank or counter: MPI_ERR_RMA_RANGE
  timeout = 2,  ///< a wait took longer than the time-out: MPI_ERR_PENDING
  failed = 3,   ///< a process of the window has ended: MPIX_ERR_PROC_FAILED, MPI_ERR_PROC_ABORTED
  network = 4   ///< an operation on another host has failed: MPI_ERR_OTHER
};

/// Binary interface between library and kernels.
namespace abi {

constexpr uint32_t kVersion = 2;

/// In pinned host memory.
struct WindowStatus {
  uint32_t error;      ///< Error, written by kernels
  int32_t rank;        ///< that the failed call was about; -1: this one
  uint32_t counter;    ///< index of the notification
  uint32_t cancelled;  ///< written by the host: 1 when a process of the window has ended
  // Of a thread that waits, for observers: written again and again while a wait lasts, by any of the threads.
  uint32_t waits;        ///< changes
  int32_t waiting_rank;  ///< for a rank; -1: for the notification below
  uint32_t waiting_counter;
  uint32_t unused;
};

struct WindowPeer {
  uint64_t base;  ///< of its window memory, as mapped on this GPU
  uint64_t bytes;
  uint64_t disp_unit;
  uint64_t last_disp;  ///< the largest displacement that is in the window or at its end
  uint64_t counters;   ///< 64-bit words: one for each rank, for barriers; then the notifications
  enum Remote : uint32_t {
    local,
    by_buffer,  ///< on another host, whose network accesses GPU memory
    by_stages   ///< on another host: the CPU moves the data, which blocks put into stages
  };
  uint32_t notifications;
  uint32_t remote;  ///< Remote; on another host `base` and `counters` are 0
};

/// In GPU memory, followed by `size` WindowPeer.
struct WindowTable {
  uint32_t version;
  int32_t rank, size;
  uint32_t unused;
  uint64_t timeout_ns;
  uint64_t status;    ///< WindowStatus
  uint64_t arrivals;  ///< words that CPUs add to, one for each own counter; 0: the window has one host
  uint64_t queue;     ///< Queue; 0: the window has one host
};

/// A request of a kernel to the CPU of its process, for a target on another host. In pinned host memory.
struct QueueRecord {
  enum Kind : uint16_t { put, get, add, exchange, compare_swap, flush };
  enum Type : uint16_t { uint32, uint64, float32, float64 };
  static constexpr int kLastWord = 6;  ///< of 8 bytes: with `signal` and `number`
  uint64_t address;  ///< of the local buffer; 0: a put of the record's payload or stage, a get into the reply
  uint64_t bytes;
  uint64_t offset;  ///< in the target's window memory, in bytes
  uint64_t operand, compare;
  uint16_t kind, type;
  int32_t rank;     ///< of the target; -1: all other hosts (flush)
  uint32_t signal;  ///< put: index of a word of the target, plus 1, to which the target adds 1; 0: none
  uint32_t number;  ///< position of the record, plus 1, written last
  uint64_t reply;   ///< number of the reply; 0: nobody waits for one
};

/// The answer to a request, in pinned host memory.
struct QueueReply {
  uint64_t value;
  uint64_t state;  ///< number of the reply times 256, plus Error
};

/// Ring of records, written by many threads of a GPU and read by one of the CPU, and slots of replies. In
/// GPU memory; the addresses are in pinned host memory. docs/adr/0061-kernel-windows-between-hosts.md
struct Queue {
  static constexpr uint64_t kRecords = 512, kReplies = 1024;
  static constexpr uint64_t kPayloadBytes = 4096;  ///< for each record
  /// Larger puts use the stage of their record's position, modulo kStages, if it is free: if the position is
  /// less than the number of records taken plus kStages.
  static constexpr uint64_t kStages = 64, kStageBytes = 65536;
  uint64_t records, payload, replies;
  uint64_t read;                ///< address of a word: number of records that the CPU has taken
  uint64_t written;             ///< number of records that threads have reserved
  uint64_t read_seen;           ///< a value of the word at `read`, at most the newest
  uint64_t replies_taken;       ///< number of replies that threads have reserved
  uint64_t stages;              ///< 0: there are none
  uint64_t released[kReplies];  ///< number of the slot's last reply for which nobody waits any more
};

/// In pinned host memory, followed by a 64-bit word for each partition: the MPI_Start in which it became
/// ready, written by kernels, or arrived, written by the host.
struct PartitionTable {
  uint32_t version;
  int32_t partitions;
  uint64_t timeout_ns;
  uint64_t starts;     ///< number of MPI_Start calls
  uint32_t error;      ///< Error of the first wait that failed since the last of them
  uint32_t cancelled;  ///< 1: the operation has ended with an error
};

}  // namespace abi

namespace detail {

/// A waiting thread looks for time-outs and failures once in this many polls of its word: they cost reads of
/// host memory.
constexpr uint32_t kPollsBetweenChecks = 1024;

WEFT_DEVICE_FUNCTION uint64_t load_acquire(uint64_t address) {
#ifdef __CUDACC__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
#else
  return __atomic_load_n(reinterpret_cast<uint64_t*>(address), __ATOMIC_ACQUIRE);
#endif
}

/// Adds after all earlier accesses of the scope, which has synchronised.
WEFT_DEVICE_FUNCTION void add_release(uint64_t address, uint64_t value) {
#ifdef __CUDACC__
  asm volatile("fence.acq_rel.sys;\n\tred.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(value)
               : "memory");
#else
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_ACQ_REL);
#endif
}

/// Stores after all earlier accesses of the scope, which has synchronised.
WEFT_DEVICE_FUNCTION void store_release(uint64_t address, uint64_t value) {
#ifdef __CUDACC__
  asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value)
               : "memory");
#else
  __atomic_store_n(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_RELEASE);
#endif
}

/// Stores `value` if the word is `expected`, among the threads of this GPU.
WEFT_DEVICE_FUNCTION bool compare_and_store(uint64_t* word, uint64_t expected, uint64_t value) {
#ifdef __CUDACC__
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), expected, value) == expected;
#else
  return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}

/// Adds without ordering.
WEFT_DEVICE_FUNCTION void add_relaxed(uint64_t address, uint64_t value) {
#ifdef __CUDACC__
  asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
#else
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_RELAXED);
#endif
}

WEFT_DEVICE_FUNCTION uint64_t now_ns() {
#ifdef __CUDACC__
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// In a long wait: lets other threads of the host run. Threads that yield without an end can keep those of
/// other sessions from the cores for half a minute (Linux 6.18).
WEFT_DEVICE_FUNCTION void pause() {
#ifndef __CUDACC__
  std::this_thread::sleep_for(std::chrono::microseconds(20));
#endif
}

WEFT_DEVICE_FUNCTION uint32_t load_volatile(const volatile uint32_t* address) { return *address; }

}  // namespace detail

/// Scopes: the threads that call a function together.
struct Thread {
  WEFT_DEVICE_FUNCTION uint32_t index() const { return 0; }
  WEFT_DEVICE_FUNCTION uint32_t count() const { return 1; }
  WEFT_DEVICE_FUNCTION void sync() const {}
};
#ifdef __CUDACC__
struct Block {
  WEFT_DEVICE_FUNCTION uint32_t index() const {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  WEFT_DEVICE_FUNCTION uint32_t count() const { return blockDim.x * blockDim.y * blockDim.z; }
  WEFT_DEVICE_FUNCTION void sync() const { __syncthreads(); }
};
/// A whole warp.
struct Warp {
  WEFT_DEVICE_FUNCTION uint32_t index() const { return Block().index() % 32; }
  WEFT_DEVICE_FUNCTION uint32_t count() const { return 32; }
  WEFT_DEVICE_FUNCTION void sync() const { __syncwarp(); }
};
#else
using Block = Thread;
using Warp = Thread;
#endif

namespace detail {

#ifdef __CUDACC__
/// Copies kDepth words of a thread; all loads are in flight before the first store.
template <int kDepth, class Word>
WEFT_DEVICE_FUNCTION void copy_step(Word* to, const Word* from, size_t stride) {
  Word words[kDepth];
#pragma unroll
  for (int k = 0; k < kDepth; ++k) words[k] = from[k * stride];  // also shared and local memory
#pragma unroll
  for (int k = 0; k < kDepth; ++k) to[k * stride] = words[k];
}

/// The scope copies `n` words.
template <class Word, class Scope>
WEFT_DEVICE_FUNCTION void copy_words(Scope scope, uint64_t to_address, uint64_t from_address, size_t n) {
  auto* const to = reinterpret_cast<Word*>(to_address);
  const auto* const from = reinterpret_cast<const Word*>(from_address);
  const size_t stride = scope.count();
  size_t i = scope.index();
  for (; i + 7 * stride < n; i += 8 * stride) copy_step<8>(to + i, from + i, stride);
  if (i + 3 * stride < n) copy_step<4>(to + i, from + i, stride), i += 4 * stride;
  if (i + stride < n) copy_step<2>(to + i, from + i, stride), i += 2 * stride;
  if (i < n) copy_step<1>(to + i, from + i, stride);
}
#endif

/// A value of thread 0 of the scope, for all of it. Synchronises the scope.
WEFT_DEVICE_FUNCTION uint64_t broadcast(Thread, uint64_t value) { return value; }
#ifdef __CUDACC__
WEFT_DEVICE_FUNCTION uint64_t broadcast(Warp, uint64_t value) {
  const uint64_t all = __shfl_sync(~0u, value, 0);
  __syncwarp();  // the shuffle orders no accesses to memory
  return all;
}
WEFT_DEVICE_FUNCTION uint64_t broadcast(Block scope, uint64_t value) {
  __shared__ uint64_t word;
  if (scope.index() == 0) word = value;
  __syncthreads();
  const uint64_t all = word;
  __syncthreads();
  return all;
}
#endif

/// Copies with the widest accesses that both addresses allow.
template <class Scope>
WEFT_DEVICE_FUNCTION void copy(Scope scope, uint64_t to, uint64_t from, size_t bytes) {
#ifdef __CUDACC__
  constexpr size_t kVector = sizeof(uint4), kSplitBytes = 16 * kVector;
  const uint64_t bits = to | from | bytes;
  if (bits % kVector == 0) {
    copy_words<uint4>(scope, to, from, bytes / kVector);
  } else if (bytes >= kSplitBytes && (to ^ from) % kVector == 0) {  // all but the ends in vectors
    const size_t head = (0 - to) % kVector, vectors = (bytes - head) / kVector;
    const size_t tail = head + vectors * kVector;
    copy_words<unsigned char>(scope, to, from, head);
    copy_words<uint4>(scope, to + head, from + head, vectors);
    copy_words<unsigned char>(scope, to + tail, from + tail, bytes - tail);
  } else if (bits % 8 == 0) {
    copy_words<unsigned long long>(scope, to, from, bytes / 8);
  } else if (bits % 4 == 0) {
    copy_words<unsigned>(scope, to, from, bytes / 4);
  } else {
    copy_words<unsigned char>(scope, to, from, bytes);
  }
#else
  (void)scope;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
#endif
}

/// All earlier accesses of the scope are visible to the whole system behind it.
template <class Scope>
WEFT_DEVICE_FUNCTION void fence(Scope scope) {
  scope.sync();
#ifdef __CUDACC__
  __threadfence_system();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/// The unsigned integer of 4 or 8 bytes on which atomic operations work.
template <size_t bytes>
struct WordOf {
  using type = unsigned long long;
};
template <>
struct WordOf<4> {
  using type = unsigned;
};
template <class To, class From>
WEFT_DEVICE_FUNCTION To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the sizes differ");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

/// Keeps the first error for the host.
template <class Scope>
WEFT_DEVICE_FUNCTION Error report(Scope scope, abi::WindowStatus* status, Error error, int rank,
                                  uint32_t notification) {
  if (scope.index() == 0 && load_volatile(&status->error) == 0) {
    volatile abi::WindowStatus& to = *status;
    to.rank = rank;
    to.counter = notification;
#ifdef __CUDACC__
    __threadfence_system();
#endif
    to.error = static_cast<uint32_t>(error);
  }
  return error;
}

}  // namespace detail

}  // namespace device
}  // namespace weft
#endif  // WEFT_DEVICE_BASE_CUH
