// SPDX-License-Identifier: BSD-3-Clause
// Device code of the Simple protocol: moving chunks, storing and polling flags.
#pragma once
#include "device/kernel/collective_device.cuh"

namespace weft::device::kernel {

__device__ __forceinline__ void store_release(uint64_t flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}

__device__ __forceinline__ uint64_t load_acquire(uint64_t flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

__device__ __forceinline__ uint4 load(uint64_t from) { return __ldcg(reinterpret_cast<const uint4*>(from)); }
__device__ __forceinline__ void store(uint64_t to, uint4 words) { *reinterpret_cast<uint4*>(to) = words; }

/// Combines terms in the order of add(): float32 sums at once, all other reductions in get(), by generic
/// code.
class TermAccumulator {
 public:
  __device__ explicit TermAccumulator(Reduction reduction)
      : reduction_(reduction), float_sum_(reduction.float_sum()) {}
  __device__ __forceinline__ void add(const Vec16& term) {
    if (!float_sum_) {
      terms_[count_++] = term;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum_[i] = count_ == 0 ? __uint_as_float(term.words[i]) : sum_[i] + __uint_as_float(term.words[i]);
    ++count_;
  }
  __device__ __forceinline__ Vec16 get() const {
    if (!float_sum_) return count_ == 1 ? terms_[0] : combine_all(reduction_, count_, terms_);
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  static __device__ __noinline__ Vec16 combine_all(Reduction reduction, int count, const Vec16* terms) {
    return kernel::fold(reduction, count, [=](int i) { return terms[i]; });
  }
  Reduction reduction_;
  bool float_sum_;
  int count_ = 0;
  float sum_[4];
  Vec16 terms_[Collective::kRanks];
};

/// `all` threads, of which this one is `self`, copy `bytes` bytes.
__device__ inline void move(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t self, uint32_t all) {
  const uint64_t whole = bytes / 16, step = all;
  uint64_t i = self;
  if (((dst | src) & 15) == 0) {
    // Loads first: a thread has few vectors of a chunk, and each round trip counts.
    constexpr int kInFlight = 4;
    for (; i < whole; i += kInFlight * step) {
      uint4 words[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (i + k * step < whole) words[k] = load(src + 16 * (i + k * step));
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (i + k * step < whole) store(dst + 16 * (i + k * step), words[k]);
    }
  } else {
    for (; i < whole; i += step) store_vec16(dst + 16 * i, load_vec16(src + 16 * i, 16), 16);
  }
  if (self == 0 && bytes % 16 != 0)
    store_vec16(dst + 16 * whole, load_vec16(src + 16 * whole, bytes % 16), bytes % 16);
}
/// Called by all threads of the block.
__device__ __forceinline__ void move(uint64_t dst, uint64_t src, uint64_t bytes) {
  move(dst, src, bytes, threadIdx.x, blockDim.x);
}

/// One of several chunks to copy; bytes 0: none.
struct ChunkCopy {
  uint64_t dst, src, bytes;
};

/// All threads of the block copy several chunks at once, so that their loads overlap: a thread has few
/// vectors of each chunk, and latency dominates. Returns false, without copying, if an address or a length is
/// not a multiple of 16.
template <uint32_t kChunks>
__device__ __forceinline__ bool move(const ChunkCopy (&chunks)[kChunks]) {
  constexpr uint32_t kInFlight = 2;
  uint64_t offset = 0, longest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kChunks; ++i) {
    if (chunks[i].bytes == 0) continue;
    offset |= chunks[i].dst | chunks[i].src | chunks[i].bytes;
    longest = chunks[i].bytes > longest ? chunks[i].bytes : longest;
  }
  if ((offset & 15) != 0) return false;
  const uint32_t step = 16 * blockDim.x;
  for (uint64_t at = 16 * threadIdx.x; at < longest; at += kInFlight * step) {
    uint4 words[kInFlight][kChunks];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
#pragma unroll
      for (uint32_t i = 0; i < kChunks; ++i)
        if (at + k * step < chunks[i].bytes) words[k][i] = load(chunks[i].src + at + k * step);
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
#pragma unroll
      for (uint32_t i = 0; i < kChunks; ++i)
        if (at + k * step < chunks[i].bytes) store(chunks[i].dst + at + k * step, words[k][i]);
  }
  return true;
}

/// Chunks and flags of one block of a call with the Simple protocol.
class SimpleRounds {
 protected:
  __device__ explicit SimpleRounds(const Collective& collective) : c_(collective) {}
  __device__ uint32_t set(uint32_t round) const { return round & 1; }
  __device__ uint64_t slot(uint32_t at, uint32_t step, uint32_t round, uint32_t source) const {
    return RegionLayout::simple_slot(c_, at, step, set(round), blockIdx.x, source);
  }
  __device__ uint32_t after(uint32_t d) const { return kernel::after(c_, d); }

  /// Sets the flags of this block at all peers, after the stores of all its threads.
  __device__ void signal(uint32_t step, uint32_t round) {
    __syncthreads();
    const uint32_t to = threadIdx.x;
    if (to < c_.size && to != c_.rank)
      store_release(RegionLayout::flag(c_.regions[to], step, set(round), blockIdx.x, c_.rank),
                    mark(c_, round));
  }
  __device__ bool wait(uint32_t step, uint32_t round) {
    const uint32_t from = threadIdx.x;
    bool late = false;
    if (from < c_.size && from != c_.rank) {
      Timeout timeout(c_.timeout_ns);
      const uint64_t flag = RegionLayout::flag(c_.regions[c_.rank], step, set(round), blockIdx.x, from);
      while (!late && load_acquire(flag) < mark(c_, round)) late = timeout.expired();
    }
    return !__syncthreads_or(late);
  }

  __device__ Range range(uint64_t bytes, uint32_t round) const {
    return chunk_range(c_, bytes, round, blockIdx.x, gridDim.x);
  }

  const Collective& c_;
};

}  // namespace weft::device::kernel
