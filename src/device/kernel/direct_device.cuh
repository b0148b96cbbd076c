// SPDX-License-Identifier: BSD-3-Clause
// Device side of large collectives in mapped buffers (direct.hpp): one block's part of a call.
#pragma once
#include "device/kernel/direct.hpp"
#include "device/kernel/simple_device.cuh"

namespace weft::device::kernel {

/// Waits until a flag reaches a value. Returns true on timeout.
__device__ __forceinline__ bool flag_timed_out(uint64_t flag, uint64_t value, uint64_t timeout_ns) {
  Timeout timeout(timeout_ns);
  bool late = false;
  while (!late && load_acquire(flag) < value) late = timeout.expired();
  return late;
}

/// Called by the last block of a launch, after all its stores are fenced. Returns true when all ranks have
/// done their part, false on timeout. The peers are signalled only once: they may have entered another call.
__device__ inline bool all_ranks_done(const Collective& c) {
  const uint32_t peer = threadIdx.x;
  const bool signalled = c.launch != 0 && load_acquire(Direct::ended(c, c.rank, c.rank)) >= mark(c, 1);
  __syncthreads();
  if (!signalled && peer < c.size) store_release(Direct::ended(c, peer, c.rank), mark(c, 1));
  const bool late = peer < c.size && flag_timed_out(Direct::ended(c, c.rank, peer), mark(c, 1), c.timeout_ns);
  return !__syncthreads_or(late);
}

/// One half of the threads of a block (number 0 or 1), with a barrier of its own.
template <int number>
struct HalfBlock {
  const uint32_t all = blockDim.x / 2, self = threadIdx.x - number * all;
  __device__ bool any(bool value) const {
    uint32_t result;
    asm volatile(
        "{.reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, q;}"
        : "=r"(result)
        : "r"(static_cast<uint32_t>(value)), "n"(number + 1), "r"(all)
        : "memory");
    return result != 0;
  }
  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"n"(number + 1), "r"(all) : "memory"); }
};

/// The i-th of `count` peers, starting at a different one in each block so that all links are busy; this rank
/// comes last.
__device__ __forceinline__ uint32_t rotated_peer(const Collective& c, uint32_t i, uint32_t count) {
  const uint32_t d = (i + blockIdx.x) % count + 1;
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

static __device__ __noinline__ uint4 load_unaligned(uint64_t from, uint32_t bytes) {
  return words_of(load_vec16(from, bytes));
}
/// Loads up to 16 bytes at any address; the rare unaligned case is out of line.
__device__ __forceinline__ uint4 load_any(uint64_t from, uint32_t bytes) {
  return bytes == 16 && (from & 15) == 0 ? load(from) : load_unaligned(from, bytes);
}

/// The bytes of a message that this block moves in a round.
__device__ __forceinline__ Range range(const Collective& c, uint64_t bytes, uint32_t round) {
  return chunk_range(c, bytes, round, blockIdx.x, gridDim.x);
}

/// reduce: the half of the block that pushes.
class PushHalf {
 public:
  __device__ explicit PushHalf(const Collective& collective) : c_(collective) {}
  __device__ void run(volatile uint32_t& pushed) {
    for (uint32_t round = pushed; round < c_.rounds; ++round) {
      const uint32_t peer = half_.self;
      const bool late = round >= Direct::kSlots && is_peer() &&
                        flag_timed_out(Direct::taken(c_, c_.rank, blockIdx.x, peer),
                                       mark(c_, round - Direct::kSlots + 1), c_.timeout_ns);
      if (half_.any(late)) return;
      for (uint32_t first = 0; first + 1 < c_.size; first += kPeers) push(round, first);
      half_.sync();
      if (is_peer()) store_release(Direct::pushed(c_, peer, blockIdx.x, c_.rank), mark(c_, round + 1));
      if (half_.self == 0) pushed = round + 1;
    }
  }

 private:
  static constexpr uint32_t kPeers = 4;
  __device__ bool is_peer() const { return half_.self < c_.size && half_.self != c_.rank; }
  /// Pushes the chunks of a round to kPeers ranks: loads first, since each round trip counts.
  __device__ void push(uint32_t round, uint32_t first) {
    uint64_t from[kPeers], to[kPeers], bytes[kPeers];
    uint64_t most = 0;
#pragma unroll
    for (uint32_t i = 0; i < kPeers; ++i) {
      bytes[i] = 0;
      if (first + i + 1 >= c_.size) continue;
      const uint32_t peer = rotated_peer(c_, first + i, c_.size - 1);
      const Range r = range(c_, c_.send[peer].bytes, round);
      from[i] = c_.send[peer].address + r.first;
      to[i] = Direct::slot(c_, peer, round, blockIdx.x, c_.rank);
      bytes[i] = r.count;
      most = r.count > most ? r.count : most;
    }
    for (uint64_t g = half_.self; 16 * g < most; g += half_.all) {
      uint4 loaded[kPeers];
#pragma unroll
      for (uint32_t i = 0; i < kPeers; ++i)
        if (16 * g < bytes[i]) loaded[i] = load_any(from[i] + 16 * g, valid_bytes(bytes[i], g));
#pragma unroll
      for (uint32_t i = 0; i < kPeers; ++i)
        if (16 * g < bytes[i]) store(to[i] + 16 * g, loaded[i]);
    }
  }

  const Collective& c_;
  const HalfBlock<0> half_;
};

/// reduce: the half of the block that combines.
class ReduceHalf {
 public:
  __device__ explicit ReduceHalf(const Direct& direct) : d_(direct), c_(direct.call) {}
  __device__ void run(const volatile uint32_t& pushed, volatile uint32_t& combined) {
    for (uint32_t round = combined; round < c_.rounds; ++round) {
      const uint32_t peer = half_.self;
      bool late = is_peer() && flag_timed_out(Direct::pushed(c_, c_.rank, blockIdx.x, peer),
                                              mark(c_, round + 1), c_.timeout_ns);
      if (peer == c_.rank) {
        Timeout timeout(c_.timeout_ns);
        while (!late && pushed <= round) late = timeout.expired();
      }
      if (half_.any(late)) return;
      const Range r = range(c_, c_.recv[0].bytes, round);
      if (c_.size <= 4)
        combine<4, 2>(round, r);
      else if (c_.size <= 8)
        combine<8, 1>(round, r);
      else
        combine<16, 1>(round, r);
      half_.sync();
      // The flag says that the chunks were read, so no release is needed: the stores of results need not have
      // arrived.
      if (is_peer())
        asm volatile(
            "st.relaxed.sys.global.u64 [%0], %1;" ::"l"(Direct::taken(c_, peer, blockIdx.x, c_.rank)),
            "l"(mark(c_, round + 1))
            : "memory");
      if (half_.self == 0) combined = round + 1;
    }
  }

 private:
  __device__ bool is_peer() const { return half_.self < c_.size && half_.self != c_.rank; }
  /// Combines a chunk. Sums of float32 at 16-byte aligned addresses have specialised code.
  template <uint32_t kTerms, uint32_t kInFlight>
  __device__ void combine(uint32_t round, const Range& r) {
    const uint64_t whole = plain_ ? r.count / 16 : 0, all = vec16_count(r.count);
    for (uint64_t g = half_.self; g < whole; g += kInFlight * half_.all)
      add<kTerms, kInFlight>(round, r, g, whole);
    for (uint64_t g = whole + half_.self; g < all; g += half_.all) {
      TermAccumulator terms(c_.reduction);
      for (uint32_t i = 0; i < c_.size; ++i)
        terms.add(
            to_vec16(load_any(term(round, r, i) + 16 * g, i == c_.rank ? valid_bytes(r.count, g) : 16)));
      const Vec16 result = terms.get();
      for (uint32_t i = 0; i < c_.size; ++i)
        if (const uint32_t to = rotated_peer(c_, i, c_.size); member(c_.targets, to))
          store_vec16(d_.out[to] + r.first + 16 * g, result, valid_bytes(r.count, g));
    }
  }
  /// Address of the term of rank i.
  __device__ __forceinline__ uint64_t term(uint32_t round, const Range& r, uint32_t i) const {
    return i == c_.rank ? c_.send[i].address + r.first : Direct::slot(c_, c_.rank, round, blockIdx.x, i);
  }
  /// Adds kInFlight vectors at once.
  template <uint32_t kTerms, uint32_t kInFlight>
  __device__ __forceinline__ void add(uint32_t round, const Range& r, uint64_t first, uint64_t all) {
    uint4 loaded[kInFlight][kTerms];
#pragma unroll
    for (uint32_t i = 0; i < kTerms; ++i) {
      if (i >= c_.size) continue;
      const uint64_t from = term(round, r, i);
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; ++k)
        if (first + k * half_.all < all) loaded[k][i] = load(from + 16 * (first + k * half_.all));
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
#pragma unroll
      for (uint32_t i = 1; i < kTerms; ++i)
        if (i < c_.size) loaded[k][0] = sum(loaded[k][0], loaded[k][i]);
    for (uint32_t i = 0; i < c_.size; ++i) {
      const uint32_t to = rotated_peer(c_, i, c_.size);
      if (!member(c_.targets, to)) continue;
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; ++k)
        if (first + k * half_.all < all)
          store(d_.out[to] + r.first + 16 * (first + k * half_.all), loaded[k][0]);
    }
  }
  static __device__ __forceinline__ uint32_t sum(uint32_t a, uint32_t b) {
    return __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
  }
  static __device__ __forceinline__ uint4 sum(uint4 a, uint4 b) {
    return make_uint4(sum(a.x, b.x), sum(a.y, b.y), sum(a.z, b.z), sum(a.w, b.w));
  }
  /// Returns whether this is a float32 sum whose addresses are all multiples of 16.
  __device__ bool is_contiguous() const {
    uint64_t addresses = c_.send[c_.rank].address;
    for (uint32_t i = 0; i < c_.size; ++i)
      if (member(c_.targets, i)) addresses |= d_.out[i];
    return (addresses & 15) == 0 && c_.reduction.op == ReduceOp::sum &&
           c_.reduction.element == Element::float32;
  }

  const Direct& d_;
  const Collective& c_;
  const HalfBlock<1> half_;
  const bool plain_ = is_contiguous();
};

class DirectBlock {
 public:
  __device__ explicit DirectBlock(const Direct& direct) : d_(direct), c_(direct.call) {}
  /// Runs from resume state `resume`. Returns the new resume state, or kEnded.
  __device__ uint64_t run(uint64_t resume) {
    if (c_.form == Collective::reduce) return reduce(resume);
    if (c_.form == Collective::two_shot) return broadcast(resume);
    exchange();
    return Collective::kEnded;
  }

 private:
  /// Pushes and combines concurrently.
  __device__ uint64_t reduce(uint64_t resume) {
    __shared__ uint32_t pushed, combined;
    if (threadIdx.x == 0) {
      pushed = static_cast<uint32_t>(resume >> 32);
      combined = static_cast<uint32_t>(resume);
    }
    __syncthreads();
    if (threadIdx.x < blockDim.x / 2)
      PushHalf(c_).run(pushed);
    else
      ReduceHalf(d_).run(pushed, combined);
    __syncthreads();
    const bool ended = pushed == c_.rounds && combined == c_.rounds;
    return ended ? Collective::kEnded : Direct::resume(pushed, combined);
  }

  /// Sends all messages, to one rank after the other, starting at the next rank. A quarter of the threads
  /// copies the own message meanwhile.
  __device__ void exchange() {
    const uint32_t local_threads = c_.send[c_.rank].bytes != 0 ? blockDim.x / 4 : 0;
    if (threadIdx.x < local_threads) return push_chunks(c_.rank, threadIdx.x, local_threads);
    for (uint32_t d = 1; d < c_.size; ++d) {
      push_chunks(after(c_, d), threadIdx.x - local_threads, blockDim.x - local_threads);
    }
  }
  /// Pushes the chunks of this block for rank `to`; this thread is `self` of `all`.
  __device__ void push_chunks(uint32_t to, uint32_t self, uint32_t all) {
    for (uint64_t chunk = blockIdx.x; chunk < c_.rounds; chunk += gridDim.x) {
      const Range r = Direct::chunk(c_, c_.send[to].bytes, chunk);
      if (r.count == 0) return;
      move(d_.out[to] + r.first, c_.send[to].address + r.first, r.count, self, all);
    }
  }

  __device__ uint64_t broadcast(uint64_t stripe) {
    const uint32_t source = __ffs(c_.sources) - 1;
    if (stripe == 0) stripe = blockIdx.x;
    for (auto pushed_stripes = static_cast<uint32_t>(stripe / gridDim.x); stripe < c_.rounds;
         stripe += gridDim.x) {
      ++pushed_stripes;
      if (c_.rank == source) {
        push_stripe(stripe, pushed_stripes);
        continue;
      }
      const bool late = threadIdx.x == 0 && flag_timed_out(Direct::pushed(c_, c_.rank, blockIdx.x, source),
                                                           mark(c_, pushed_stripes), c_.timeout_ns);
      if (__syncthreads_or(late)) return stripe;
      forward_stripe(stripe, source);
    }
    return Collective::kEnded;
  }
  __device__ void push_stripe(uint64_t stripe, uint32_t pushed_stripes) {
    for (uint32_t i = 0; i + 1 < c_.size; ++i) {
      const uint32_t to = rotated_peer(c_, i, c_.size - 1);
      const Range r = Direct::chunk_of_stripe(c_, stripe, c_.rank, to);
      if (r.count != 0) move(d_.out[to] + r.first, c_.send[0].address + r.first, r.count);
    }
    __syncthreads();
    const uint32_t to = threadIdx.x;
    if (to < c_.size && to != c_.rank)
      store_release(Direct::pushed(c_, to, blockIdx.x, c_.rank), mark(c_, pushed_stripes));
  }
  __device__ void forward_stripe(uint64_t stripe, uint32_t source) {
    const Range r = Direct::chunk_of_stripe(c_, stripe, source, c_.rank);
    for (uint32_t i = 0; r.count != 0 && i + 1 < c_.size; ++i) {
      const uint32_t to = rotated_peer(c_, i, c_.size - 1);
      if (to != source) move(d_.out[to] + r.first, d_.out[c_.rank] + r.first, r.count);
    }
  }

  const Direct& d_;
  const Collective& c_;
};

}  // namespace weft::device::kernel
