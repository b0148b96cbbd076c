// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives with flags beside the data: what their wires have in common. A wire says where a
// rank's data lie in an area, how blocks share them, and how they are pushed, taken and combined.
#pragma once
#include "device/kernel/collective.hpp"

namespace weft::device::kernel {

__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// How long a thread has waited. Reads the clock now and then only.
class Waiter {
 public:
  __device__ explicit Waiter(uint64_t patience) : patience_(patience) {}
  __device__ bool over() {
    if (++looks_ % 64 != 0) return false;
    const uint64_t now = global_nanoseconds();
    if (since_ == 0) since_ = now;
    return now - since_ > patience_;
  }

 private:
  uint64_t patience_, since_ = 0;
  uint32_t looks_ = 0;
};

__device__ __forceinline__ Granule granule_of(uint4 words) { return {{words.x, words.y, words.z, words.w}}; }
__device__ __forceinline__ uint4 words_of(const Granule& g) {
  return make_uint4(g.words[0], g.words[1], g.words[2], g.words[3]);
}

/// Up to 16 bytes at any address, zero behind them. Fresh: the first-level cache is passed by.
__device__ __forceinline__ Granule load_granule(uint64_t from, uint32_t bytes) {
  if (bytes == 16 && (from & 15) == 0) return granule_of(__ldcv(reinterpret_cast<const uint4*>(from)));
  Granule g{};
  if (((from | bytes) & 3) == 0) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if (4 * i < bytes) g.words[i] = __ldcv(reinterpret_cast<const uint32_t*>(from) + i);
    return g;
  }
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    if (i < bytes)
      g.words[i / 4] |= static_cast<uint32_t>(__ldcv(reinterpret_cast<const unsigned char*>(from) + i))
                        << 8 * (i % 4);
  return g;
}

__device__ __forceinline__ void store_granule(uint64_t to, const Granule& g, uint32_t bytes) {
  if (bytes == 16 && (to & 15) == 0) {
    *reinterpret_cast<uint4*>(to) = words_of(g);
  } else if (((to | bytes) & 3) == 0) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if (4 * i < bytes) reinterpret_cast<uint32_t*>(to)[i] = g.words[i];
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i)
      if (i < bytes)
        reinterpret_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(g.words[i / 4] >> 8 * (i % 4));
  }
}

/// Bytes of granule g of a message.
__device__ __forceinline__ uint32_t valid(uint64_t bytes, uint64_t g) {
  const uint64_t rest = bytes - 16 * g;
  return rest < 16 ? static_cast<uint32_t>(rest) : 16;
}

/// 16 bytes as a whole, fresh; also from shared memory.
__device__ __forceinline__ uint4 load_words(uint64_t at) {
  uint4 words;
  asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(at)
               : "memory");
  return words;
}
__device__ __forceinline__ void store_words(uint64_t at, const uint4& words) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

/// How a granule lies in an area.
enum class Lies : uint8_t { in_packets, in_line };

/// Terms of a granule that have come, combined in rank order: those of the ranks of a set, `stride` bytes
/// apart.
__device__ __noinline__ inline Granule combined(Reduction reduction, uint32_t ranks, uint64_t terms,
                                                uint32_t stride, Lies how) {
  const auto next = [&] {
    const uint64_t at = terms + static_cast<uint64_t>(__ffs(ranks) - 1) * stride;
    ranks &= ranks - 1;
    const uint4 a = load_words(at);
    if (how == Lies::in_line) return granule_of(a);
    const uint4 b = load_words(at + 16);
    return Granule{{a.x, a.z, b.x, b.z}};
  };
  const int count = __popc(ranks);
  return count == 1 ? next() : fold(reduction, count, [&](int) { return next(); });
}

/// Sums of floats, which have code of their own, term by term.
class FloatSum {
 public:
  __device__ __forceinline__ void add(const Granule& granule) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float term = __uint_as_float(granule.words[i]);
      sum_[i] = begun_ ? sum_[i] + term : term;
    }
    begun_ = true;
  }
  __device__ __forceinline__ void add(const uint4& low, const uint4& high) {
    add(Granule{{low.x, low.z, high.x, high.z}});
  }
  __device__ __forceinline__ Granule get() const {
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  float sum_[4] = {};
  bool begun_ = false;
};

/// The threads of a block dealt to the ranks.
struct Deal {
  uint32_t peer, self, all;
  __device__ explicit Deal(uint32_t size) {
    all = blockDim.x / size;
    if (all >= 32) all = all / 32 * 32;
    peer = threadIdx.x / all;
    self = threadIdx.x % all;
  }
};

/// What a group of threads, of which this is `self` of `all`, has of a message: granules of it, or of its
/// part that begins behind `skipped` of them.
struct Stretch {
  uint64_t message, bytes, skipped;
  Range mine;
  uint32_t self, all;
  __device__ Stretch(Collective::Message whole, uint64_t granules_before, Range share, const Deal& deal)
      : message(whole.address),
        bytes(whole.bytes),
        skipped(granules_before),
        mine(share),
        self(deal.self),
        all(deal.all) {}
};

/// The rank that is d further, in a circle; d is the communicator's size at most.
__device__ __forceinline__ uint32_t after(const Collective& c, uint32_t d) {
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

}  // namespace weft::device::kernel
