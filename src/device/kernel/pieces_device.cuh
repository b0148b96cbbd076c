// SPDX-License-Identifier: BSD-3-Clause
// Device code of collectives whose data have flags behind them: moving pieces, raising and seeing flags.
#pragma once
#include "device/kernel/collective_device.cuh"

namespace weft::device::kernel {

__device__ __forceinline__ void raise(uint64_t flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}

__device__ __forceinline__ uint64_t look(uint64_t flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

__device__ __forceinline__ uint4 load(uint64_t from) { return __ldcg(reinterpret_cast<const uint4*>(from)); }
__device__ __forceinline__ void store(uint64_t to, uint4 words) { *reinterpret_cast<uint4*>(to) = words; }

/// Combines terms one by one, in the order in which they come: sums of floats at once, others at the end, by
/// what has code for every operation.
class Sum {
 public:
  __device__ explicit Sum(Reduction reduction) : reduction_(reduction), float_sum_(reduction.float_sum()) {}
  __device__ __forceinline__ void add(const Granule& term) {
    if (!float_sum_) {
      terms_[count_++] = term;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum_[i] = count_ == 0 ? __uint_as_float(term.words[i]) : sum_[i] + __uint_as_float(term.words[i]);
    ++count_;
  }
  __device__ __forceinline__ Granule get() const {
    if (!float_sum_) return count_ == 1 ? terms_[0] : combine_all(reduction_, count_, terms_);
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  static __device__ __noinline__ Granule combine_all(Reduction reduction, int count, const Granule* terms) {
    return kernel::fold(reduction, count, [=](int i) { return terms[i]; });
  }
  Reduction reduction_;
  bool float_sum_;
  int count_ = 0;
  float sum_[4];
  Granule terms_[Collective::kRanks];
};

/// Threads, of which this one is `self` of `all`, copy n bytes.
__device__ inline void move(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t self, uint32_t all) {
  const uint64_t whole = bytes / 16, step = all;
  uint64_t i = self;
  if (((dst | src) & 15) == 0) {
    // Loads first: a thread has few granules of a piece, and each round trip counts.
    constexpr int kAhead = 4;
    for (; i < whole; i += kAhead * step) {
      uint4 words[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k * step < whole) words[k] = load(src + 16 * (i + k * step));
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k * step < whole) store(dst + 16 * (i + k * step), words[k]);
    }
  } else {
    for (; i < whole; i += step) store_granule(dst + 16 * i, load_granule(src + 16 * i, 16), 16);
  }
  if (self == 0 && bytes % 16 != 0)
    store_granule(dst + 16 * whole, load_granule(src + 16 * whole, bytes % 16), bytes % 16);
}
/// All threads of the block.
__device__ __forceinline__ void move(uint64_t dst, uint64_t src, uint64_t bytes) {
  move(dst, src, bytes, threadIdx.x, blockDim.x);
}

/// One of several pieces to be moved; no bytes: none.
struct Piece {
  uint64_t dst, src, bytes;
};

/// All threads of the block copy some pieces side by side: their loads are under way together, since a thread
/// has few granules of each and a load takes longer than the bytes. False: not all are granules.
template <uint32_t kPieces>
__device__ __forceinline__ bool move(const Piece (&pieces)[kPieces]) {
  constexpr uint32_t kAhead = 2;
  uint64_t offset = 0, longest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kPieces; ++i) {
    if (pieces[i].bytes == 0) continue;
    offset |= pieces[i].dst | pieces[i].src | pieces[i].bytes;
    longest = pieces[i].bytes > longest ? pieces[i].bytes : longest;
  }
  if ((offset & 15) != 0) return false;
  const uint32_t step = 16 * blockDim.x;
  for (uint64_t at = 16 * threadIdx.x; at < longest; at += kAhead * step) {
    uint4 words[kAhead][kPieces];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k)
#pragma unroll
      for (uint32_t i = 0; i < kPieces; ++i)
        if (at + k * step < pieces[i].bytes) words[k][i] = load(pieces[i].src + at + k * step);
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k)
#pragma unroll
      for (uint32_t i = 0; i < kPieces; ++i)
        if (at + k * step < pieces[i].bytes) store(pieces[i].dst + at + k * step, words[k][i]);
  }
  return true;
}

}  // namespace weft::device::kernel
