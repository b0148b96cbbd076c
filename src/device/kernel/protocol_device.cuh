// SPDX-License-Identifier: BSD-3-Clause
// Device side common to the LL and LL128 protocols. A protocol defines where the data of a rank lie in a
// region, how blocks share the data, and how data are pushed, received and combined.
#pragma once
#include "device/kernel/collective.hpp"
#include "device/kernel/ptx_device.cuh"
#include "device/kernel/stream_beat.hpp"

namespace weft::device::kernel {

/// That of the call of this block; only set in enqueued collectives.
__device__ __forceinline__ StreamBeat& stream_beat() {
  __shared__ StreamBeat beat;
  return beat;
}

/// Limits the wait of a thread. Reads the clock at every 64th poll only, and the cancel word, which is in
/// host memory, at every 4096th, when it also writes the beat.
class Timeout {
 public:
  __device__ explicit Timeout(uint64_t timeout_ns) : timeout_ns_(timeout_ns) {}
  __device__ bool expired() {
    if (++polls_ % 64 != 0) return false;
    if ((timeout_ns_ & Collective::kCancelWord) != 0) return polls_ % 4096 == 0 && cancelled();
    const uint64_t now = nanoseconds();
    if (since_ == 0) since_ = now;
    return now - since_ > timeout_ns_;
  }

 private:
  __device__ bool cancelled() const {
    const StreamBeat& beat = stream_beat();
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(beat.address), "l"(beat.value(nanoseconds()))
                 : "memory");
    return *reinterpret_cast<const volatile uint32_t*>(timeout_ns_ & ~Collective::kCancelWord) != 0;
  }
  uint64_t timeout_ns_, since_ = 0;
  uint32_t polls_ = 0;
};

__device__ __forceinline__ Vec16 to_vec16(uint4 words) { return {{words.x, words.y, words.z, words.w}}; }
__device__ __forceinline__ uint4 words_of(const Vec16& g) {
  return make_uint4(g.words[0], g.words[1], g.words[2], g.words[3]);
}

/// Loads up to 16 bytes at any address and zero-fills the rest. Bypasses the L1 cache.
__device__ __forceinline__ Vec16 load_vec16(uint64_t from, uint32_t bytes) {
  if (bytes == 16 && (from & 15) == 0) return to_vec16(__ldcv(reinterpret_cast<const uint4*>(from)));
  Vec16 g{};
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

__device__ __forceinline__ void store_vec16(uint64_t to, const Vec16& g, uint32_t bytes) {
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

/// Bytes of vector g of a message.
__device__ __forceinline__ uint32_t valid_bytes(uint64_t bytes, uint64_t g) {
  const uint64_t rest = bytes - 16 * g;
  return rest < 16 ? static_cast<uint32_t>(rest) : 16;
}

/// Loads 16 bytes at once, bypassing the L1 cache; also from shared memory.
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

/// How a vector is stored in a region.
enum class TermLayout : uint8_t { ll_packets, ll128_line };

/// Combines the terms of a vector that have arrived from a set of ranks, in rank order; the terms lie
/// `stride` bytes apart.
__device__ __noinline__ inline Vec16 combined(Reduction reduction, uint32_t ranks, uint64_t terms,
                                              uint32_t stride, TermLayout layout) {
  const auto next = [&] {
    const uint64_t at = terms + static_cast<uint64_t>(__ffs(ranks) - 1) * stride;
    ranks &= ranks - 1;
    const uint4 a = load_words(at);
    if (layout == TermLayout::ll128_line) return to_vec16(a);
    const uint4 b = load_words(at + 16);
    return Vec16{{a.x, a.z, b.x, b.z}};
  };
  const int count = __popc(ranks);
  return count == 1 ? next() : fold(reduction, count, [&](int) { return next(); });
}

/// Sum of float32 terms, with specialised code.
class FloatSum {
 public:
  __device__ __forceinline__ void add(const Vec16& vec) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float term = __uint_as_float(vec.words[i]);
      sum_[i] = begun_ ? sum_[i] + term : term;
    }
    begun_ = true;
  }
  __device__ __forceinline__ void add(const uint4& low, const uint4& high) {
    add(Vec16{{low.x, low.z, high.x, high.z}});
  }
  __device__ __forceinline__ Vec16 get() const {
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  float sum_[4] = {};
  bool begun_ = false;
};

/// Divides the threads of a block among the ranks.
struct ThreadShare {
  uint32_t peer, self, all;
  __device__ explicit ThreadShare(uint32_t size) {
    all = blockDim.x / size;
    if (all >= 32) all = all / 32 * 32;
    peer = threadIdx.x / all;
    self = threadIdx.x % all;
  }
};

/// The part of a message that a group of `all` threads handles (this thread is `self`): vectors `mine` behind
/// the first `skipped` vectors of the message.
struct MessageSlice {
  uint64_t message, bytes, skipped;
  Range mine;
  uint32_t self, all;
  __device__ MessageSlice(Collective::Message whole, uint64_t skipped_vectors, Range share,
                          const ThreadShare& share_of_thread)
      : message(whole.address),
        bytes(whole.bytes),
        skipped(skipped_vectors),
        mine(share),
        self(share_of_thread.self),
        all(share_of_thread.all) {}
};

/// The rank at distance d in the ring; d is at most the size of the communicator.
__device__ __forceinline__ uint32_t after(const Collective& c, uint32_t d) {
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

}  // namespace weft::device::kernel
