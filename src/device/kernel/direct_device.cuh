// SPDX-License-Identifier: BSD-3-Clause
// Device side of large collectives in mapped buffers (direct.hpp): one block's part of a call.
#pragma once
#include "device/kernel/direct.hpp"
#include "device/kernel/pieces_device.cuh"

namespace weft::device::kernel {

/// Waits until a flag has come to a value; true: in vain.
__device__ __forceinline__ bool late_for(uint64_t flag, uint64_t value, uint64_t patience) {
  Waiter waiter(patience);
  bool late = false;
  while (!late && look(flag) < value) late = waiter.over();
  return late;
}

/// One block, the last of a launch: all ranks have done their part; false: waited too long. Every thread's
/// stores are fenced before. The others are told once: they may be in another call already.
__device__ inline bool met(const Collective& c) {
  const uint32_t peer = threadIdx.x;
  const bool told = c.launch != 0 && look(Direct::ended(c, c.rank, c.rank)) >= mark(c, 1);
  __syncthreads();
  if (!told && peer < c.size) raise(Direct::ended(c, peer, c.rank), mark(c, 1));
  const bool late = peer < c.size && late_for(Direct::ended(c, c.rank, peer), mark(c, 1), c.patience);
  return !__syncthreads_or(late);
}

/// Half of a block's threads, which go their own way, with a barrier of their own: the first half or the
/// second.
template <int number>
struct Half {
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

/// The ranks from another one on in each block, so that all links are busy all the time: i-th of `count`, the
/// rank itself last.
__device__ __forceinline__ uint32_t turned(const Collective& c, uint32_t i, uint32_t count) {
  const uint32_t d = (i + blockIdx.x) % count + 1;
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

static __device__ __noinline__ uint4 load_odd(uint64_t from, uint32_t bytes) {
  return words_of(load_granule(from, bytes));
}
/// Up to 16 bytes at any address; what is seldom is out of the way.
__device__ __forceinline__ uint4 load_any(uint64_t from, uint32_t bytes) {
  return bytes == 16 && (from & 15) == 0 ? load(from) : load_odd(from, bytes);
}

/// The bytes that a block moves of a message in a round.
__device__ __forceinline__ Range range(const Collective& c, uint64_t bytes, uint32_t round) {
  return piece(c, bytes, round, blockIdx.x, gridDim.x);
}

/// reduce: the half that pushes.
class Pusher {
 public:
  __device__ explicit Pusher(const Collective& collective) : c_(collective) {}
  __device__ void run(volatile uint32_t& pushed) {
    for (uint32_t round = pushed; round < c_.rounds; ++round) {
      const uint32_t peer = half_.self;
      const bool late = round >= Direct::kSets && is_peer() &&
                        late_for(Direct::taken(c_, c_.rank, blockIdx.x, peer),
                                 mark(c_, round - Direct::kSets + 1), c_.patience);
      if (half_.any(late)) return;
      for (uint32_t first = 0; first + 1 < c_.size; first += kPeers) push(round, first);
      half_.sync();
      if (is_peer()) raise(Direct::pushed(c_, peer, blockIdx.x, c_.rank), mark(c_, round + 1));
      if (half_.self == 0) pushed = round + 1;
    }
  }

 private:
  static constexpr uint32_t kPeers = 4;
  __device__ bool is_peer() const { return half_.self < c_.size && half_.self != c_.rank; }
  /// A round's pieces for some ranks: loads first, since each round trip counts.
  __device__ void push(uint32_t round, uint32_t first) {
    uint64_t from[kPeers], to[kPeers], bytes[kPeers];
    uint64_t most = 0;
#pragma unroll
    for (uint32_t i = 0; i < kPeers; ++i) {
      bytes[i] = 0;
      if (first + i + 1 >= c_.size) continue;
      const uint32_t peer = turned(c_, first + i, c_.size - 1);
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
        if (16 * g < bytes[i]) loaded[i] = load_any(from[i] + 16 * g, valid(bytes[i], g));
#pragma unroll
      for (uint32_t i = 0; i < kPeers; ++i)
        if (16 * g < bytes[i]) store(to[i] + 16 * g, loaded[i]);
    }
  }

  const Collective& c_;
  const Half<0> half_;
};

/// The half that combines.
class Combiner {
 public:
  __device__ explicit Combiner(const Direct& direct) : d_(direct), c_(direct.call) {}
  __device__ void run(const volatile uint32_t& pushed, volatile uint32_t& combined) {
    for (uint32_t round = combined; round < c_.rounds; ++round) {
      const uint32_t peer = half_.self;
      bool late = is_peer() &&
                  late_for(Direct::pushed(c_, c_.rank, blockIdx.x, peer), mark(c_, round + 1), c_.patience);
      if (peer == c_.rank) {
        Waiter waiter(c_.patience);
        while (!late && pushed <= round) late = waiter.over();
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
      // It says that the pieces are read, which they are: what was stored elsewhere need not have arrived.
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
  /// A piece. Sums of floats at places that are multiples of 16 have code of their own.
  template <uint32_t kTerms, uint32_t kAhead>
  __device__ void combine(uint32_t round, const Range& r) {
    const uint64_t whole = plain_ ? r.count / 16 : 0, all = granules(r.count);
    for (uint64_t g = half_.self; g < whole; g += kAhead * half_.all) add<kTerms, kAhead>(round, r, g, whole);
    for (uint64_t g = whole + half_.self; g < all; g += half_.all) {
      Sum terms(c_.reduction);
      for (uint32_t i = 0; i < c_.size; ++i)
        terms.add(granule_of(load_any(term(round, r, i) + 16 * g, i == c_.rank ? valid(r.count, g) : 16)));
      const Granule result = terms.get();
      for (uint32_t i = 0; i < c_.size; ++i)
        if (const uint32_t to = turned(c_, i, c_.size); member(c_.targets, to))
          store_granule(d_.out[to] + r.first + 16 * g, result, valid(r.count, g));
    }
  }
  /// Where rank i's piece lies.
  __device__ __forceinline__ uint64_t term(uint32_t round, const Range& r, uint32_t i) const {
    return i == c_.rank ? c_.send[i].address + r.first : Direct::slot(c_, c_.rank, round, blockIdx.x, i);
  }
  /// kAhead granules at once.
  template <uint32_t kTerms, uint32_t kAhead>
  __device__ __forceinline__ void add(uint32_t round, const Range& r, uint64_t first, uint64_t all) {
    uint4 loaded[kAhead][kTerms];
#pragma unroll
    for (uint32_t i = 0; i < kTerms; ++i) {
      if (i >= c_.size) continue;
      const uint64_t from = term(round, r, i);
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
        if (first + k * half_.all < all) loaded[k][i] = load(from + 16 * (first + k * half_.all));
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k)
#pragma unroll
      for (uint32_t i = 1; i < kTerms; ++i)
        if (i < c_.size) loaded[k][0] = sum(loaded[k][0], loaded[k][i]);
    for (uint32_t i = 0; i < c_.size; ++i) {
      const uint32_t to = turned(c_, i, c_.size);
      if (!member(c_.targets, to)) continue;
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
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
  /// Sums of floats, and every address that matters is a multiple of 16.
  __device__ bool is_plain() const {
    uint64_t addresses = c_.send[c_.rank].address;
    for (uint32_t i = 0; i < c_.size; ++i)
      if (member(c_.targets, i)) addresses |= d_.out[i];
    return (addresses & 15) == 0 && c_.reduction.op == ReduceOp::sum &&
           c_.reduction.element == Element::float32;
  }

  const Direct& d_;
  const Collective& c_;
  const Half<1> half_;
  const bool plain_ = is_plain();
};

class DirectBlock {
 public:
  __device__ explicit DirectBlock(const Direct& direct) : d_(direct), c_(direct.call) {}
  /// Where it stopped; kEnded: nowhere.
  __device__ uint64_t run(uint64_t place) {
    if (c_.form == Collective::reduce) return reduce(place);
    if (c_.form == Collective::two_shot) return spread(place);
    exchange();
    return Collective::kEnded;
  }

 private:
  /// Pushing and combining, side by side.
  __device__ uint64_t reduce(uint64_t place) {
    __shared__ uint32_t pushed, combined;
    if (threadIdx.x == 0) {
      pushed = static_cast<uint32_t>(place >> 32);
      combined = static_cast<uint32_t>(place);
    }
    __syncthreads();
    if (threadIdx.x < blockDim.x / 2)
      Pusher(c_).run(pushed);
    else
      Combiner(d_).run(pushed, combined);
    __syncthreads();
    const bool ended = pushed == c_.rounds && combined == c_.rounds;
    return ended ? Collective::kEnded : Direct::place(pushed, combined);
  }

  /// All blocks to one rank after the other, each GPU from the next one on. What stays here some warps copy
  /// meanwhile.
  __device__ void exchange() {
    const uint32_t here = c_.send[c_.rank].bytes != 0 ? blockDim.x / 4 : 0;
    if (threadIdx.x < here) return give(c_.rank, threadIdx.x, here);
    for (uint32_t d = 1; d < c_.size; ++d) {
      give(after(c_, d), threadIdx.x - here, blockDim.x - here);
    }
  }
  /// A block's chunks for a rank, by threads of which this one is `self` of `all`.
  __device__ void give(uint32_t to, uint32_t self, uint32_t all) {
    for (uint64_t chunk = blockIdx.x; chunk < c_.rounds; chunk += gridDim.x) {
      const Range r = Direct::chunk(c_, c_.send[to].bytes, chunk);
      if (r.count == 0) return;
      move(d_.out[to] + r.first, c_.send[to].address + r.first, r.count, self, all);
    }
  }

  __device__ uint64_t spread(uint64_t row) {
    const uint32_t source = __ffs(c_.sources) - 1;
    if (row == 0) row = blockIdx.x;
    for (auto given = static_cast<uint32_t>(row / gridDim.x); row < c_.rounds; row += gridDim.x) {
      ++given;
      if (c_.rank == source) {
        give_row(row, given);
        continue;
      }
      const bool late = threadIdx.x == 0 && late_for(Direct::pushed(c_, c_.rank, blockIdx.x, source),
                                                     mark(c_, given), c_.patience);
      if (__syncthreads_or(late)) return row;
      pass_on(row, source);
    }
    return Collective::kEnded;
  }
  __device__ void give_row(uint64_t row, uint32_t given) {
    for (uint32_t i = 0; i + 1 < c_.size; ++i) {
      const uint32_t to = turned(c_, i, c_.size - 1);
      const Range r = Direct::chunk_of_row(c_, row, c_.rank, to);
      if (r.count != 0) move(d_.out[to] + r.first, c_.send[0].address + r.first, r.count);
    }
    __syncthreads();
    const uint32_t to = threadIdx.x;
    if (to < c_.size && to != c_.rank) raise(Direct::pushed(c_, to, blockIdx.x, c_.rank), mark(c_, given));
  }
  __device__ void pass_on(uint64_t row, uint32_t source) {
    const Range r = Direct::chunk_of_row(c_, row, source, c_.rank);
    for (uint32_t i = 0; r.count != 0 && i + 1 < c_.size; ++i) {
      const uint32_t to = turned(c_, i, c_.size - 1);
      if (to != source) move(d_.out[to] + r.first, d_.out[c_.rank] + r.first, r.count);
    }
  }

  const Direct& d_;
  const Collective& c_;
};

}  // namespace weft::device::kernel
