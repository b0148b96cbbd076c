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

/// Copies kDepth words of a thread; all loads are issued before the first store.
template <bool kFresh, int kDepth, class Word>
__device__ __forceinline__ void copy_step(Word* dst, const Word* src, uint64_t stride) {
  Word words[kDepth];
#pragma unroll
  for (int k = 0; k < kDepth; ++k) words[k] = load<kFresh>(src + k * stride);
#pragma unroll
  for (int k = 0; k < kDepth; ++k) dst[k * stride] = words[k];
}

/// Thread `self` of `all` copies its share of n words. To fill NVLink, eight blocks need eight 16-byte loads
/// per thread in flight.
template <bool kFresh, class Word>
__device__ void copy_words(Word* dst, const Word* src, uint64_t n, uint32_t self, uint32_t all) {
  const uint64_t stride = all;
  uint64_t i = self;
  for (; i + 7 * stride < n; i += 8 * stride) copy_step<kFresh, 8>(dst + i, src + i, stride);
  if (i + 3 * stride < n) copy_step<kFresh, 4>(dst + i, src + i, stride), i += 4 * stride;
  if (i + stride < n) copy_step<kFresh, 2>(dst + i, src + i, stride), i += 2 * stride;
  if (i < n) copy_step<kFresh, 1>(dst + i, src + i, stride);
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

}  // namespace weft::device::kernel
