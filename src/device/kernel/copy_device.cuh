// SPDX-License-Identifier: BSD-3-Clause
// Device code of copies shared by many threads; used by all kernels that move bytes.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

// A resident kernel must see data written since its last command, so its loads bypass the L1 cache.
template <bool kFresh, class Word>
__device__ __forceinline__ Word load(const Word* from) {
  return kFresh ? __ldcv(from) : __ldcg(from);
}

/// Thread `self` of `all` copies its share of n words, kDepth at a time: all their loads are issued before
/// the first store. To fill NVLink, eight blocks need eight 16-byte loads per thread in flight.
template <bool kFresh, int kDepth = 8, class Word>
__device__ __forceinline__ void copy_words(Word* dst, const Word* src, uint64_t n, uint32_t self,
                                           uint32_t all) {
  const uint64_t stride = all;
  uint64_t i = self;
  for (; i + (kDepth - 1) * stride < n; i += kDepth * stride) {
    Word words[kDepth];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) words[k] = load<kFresh>(src + i + k * stride);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) dst[i + k * stride] = words[k];
  }
  Word rest[kDepth - 1];
#pragma unroll
  for (int k = 0; k < kDepth - 1; ++k)
    rest[k] = i + k * stride < n ? load<kFresh>(src + i + k * stride) : Word{};
#pragma unroll
  for (int k = 0; k < kDepth - 1; ++k)
    if (i + k * stride < n) dst[i + k * stride] = rest[k];
}

/// Copies bytes, in words where both addresses have the same offset in a word.
template <bool kFresh, class Word>
__device__ void copy_by(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t self, uint32_t all) {
  using Byte = unsigned char;
  const uint64_t to_boundary = -dst & (sizeof(Word) - 1);
  const uint64_t head = to_boundary < bytes ? to_boundary : bytes;
  const uint64_t words = (bytes - head) / sizeof(Word), tail = head + words * sizeof(Word);
  auto* const to = reinterpret_cast<Byte*>(dst);
  const auto* const from = reinterpret_cast<const Byte*>(src);
  copy_words<kFresh>(reinterpret_cast<Word*>(dst + head), reinterpret_cast<const Word*>(src + head), words,
                     self, all);
  for (uint64_t i = self; i < head; i += all) to[i] = load<kFresh>(from + i);
  for (uint64_t i = tail + self; i < bytes; i += all) to[i] = load<kFresh>(from + i);
}

template <bool kFresh>
__device__ void copy(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t self, uint32_t all) {
  const uint64_t offset = dst ^ src;
  if ((offset & 15) == 0 && bytes >= 16)
    copy_by<kFresh, uint4>(dst, src, bytes, self, all);
  else if ((offset & 7) == 0 && bytes >= 8)
    copy_by<kFresh, uint2>(dst, src, bytes, self, all);
  else if ((offset & 3) == 0 && bytes >= 4)
    copy_by<kFresh, uint32_t>(dst, src, bytes, self, all);
  else
    copy_by<kFresh, unsigned char>(dst, src, bytes, self, all);
}

__device__ __forceinline__ uint4 load_relaxed(const uint4* from) {
  uint4 word;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(from)
               : "memory");
  return word;
}
__device__ __forceinline__ uint2 load_relaxed(const uint2* from) {
  uint2 word;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(word.x), "=r"(word.y)
               : "l"(from)
               : "memory");
  return word;
}
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t* from) {
  uint32_t word;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
__device__ __forceinline__ uint16_t load_relaxed(const uint16_t* from) {
  uint16_t word;
  asm volatile("ld.relaxed.sys.global.u16 %0, [%1];" : "=h"(word) : "l"(from) : "memory");
  return word;
}
__device__ __forceinline__ uint8_t load_relaxed(const uint8_t* from) {
  uint32_t word;
  asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return static_cast<uint8_t>(word);
}

__device__ __forceinline__ bool same(uint4 a, uint4 b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
__device__ __forceinline__ bool same(uint2 a, uint2 b) { return a.x == b.x && a.y == b.y; }
__device__ __forceinline__ bool same(uint32_t a, uint32_t b) { return a == b; }

/// A copy of at most one word for each lane of a warp.
struct ShortCopy {
  uint64_t dst, src;
  uint32_t count, word;  ///< words; bytes of one: 1, 2, 4, 8 or 16

  /// Empty if the copy is longer.
  __device__ __forceinline__ static ShortCopy of(uint64_t dst, uint64_t src, uint32_t bytes) {
    const auto bits = static_cast<uint32_t>(dst | src | bytes | 16);
    const uint32_t word = bits & -bits;  // largest power of two up to 16 that divides all
    return {dst, src, bytes <= 32 * word ? bytes >> (__ffs(word) - 1) : 0, word};
  }

  /// Lane `lane` copies its word and, if `checked`, reads it back from where it went: a word that is there
  /// has arrived. Returns whether it has, or was not asked.
  __device__ __forceinline__ bool run(uint32_t lane, bool checked) const {
    if (lane >= count) return true;
    switch (word) {
      case 16:
        return run_by<uint4>(lane, checked);
      case 8:
        return run_by<uint2>(lane, checked);
      case 4:
        return run_by<uint32_t>(lane, checked);
      case 2:
        return run_by<uint16_t>(lane, checked);
      default:
        return run_by<uint8_t>(lane, checked);
    }
  }

 private:
  template <class Word>
  __device__ __forceinline__ bool run_by(uint32_t lane, bool checked) const {
    Word* const to = reinterpret_cast<Word*>(dst) + lane;
    const Word moved = load<true>(reinterpret_cast<const Word*>(src) + lane);
    *to = moved;
    return !checked || same(load_relaxed(to), moved);
  }
};

}  // namespace weft::device::kernel
