// SPDX-License-Identifier: BSD-3-Clause
// Granules in memory: loads and stores at any alignment, of whole granules and of the bytes at an end,
// without touching a pair's padding. C++17; for kernels and for the host functions that stand for them.
#pragma once
#include "device/kernel/element.hpp"

namespace weft::device::kernel {

namespace detail {

/// n words of this type; what is read may have changed since the thread read it last.
template <class Word>
WEFT_INLINE void load_words(Granule& granule, uint64_t address) {
  constexpr int kWords = 16 / sizeof(Word);
  const auto* from = reinterpret_cast<const Word*>(address);
  WEFT_UNROLL
  for (int i = 0; i < kWords; ++i) {
#ifdef __CUDA_ARCH__
    const Word word = __ldcg(from + i);
#else
    Word word;
    memcpy(&word, from + i, sizeof word);
#endif
    put_lane<Word>(granule.words, i, word);
  }
}

template <class Word>
WEFT_INLINE void store_words(uint64_t address, const Granule& granule) {
  constexpr int kWords = 16 / sizeof(Word);
  auto* to = reinterpret_cast<Word*>(address);
  WEFT_UNROLL
  for (int i = 0; i < kWords; ++i) {
    const Word word = lane_of<Word>(granule.words, i);
#ifdef __CUDA_ARCH__
    to[i] = word;
#else
    memcpy(to + i, &word, sizeof word);
#endif
  }
}

WEFT_INLINE uint8_t byte_of(const Granule& granule, uint32_t i) {
  return static_cast<uint8_t>(granule.words[i / 4] >> (i % 4 * 8));
}

}  // namespace detail

/// Sixteen bytes at an address that is a multiple of `alignment`: 1, 2, 4, 8 or 16.
WEFT_INLINE Granule load_granule(uint64_t address, uint32_t alignment) {
  Granule granule{};
#ifdef __CUDA_ARCH__
  if (alignment == 16) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address));
    return {{words.x, words.y, words.z, words.w}};
  }
#endif
  if (alignment >= 8)
    detail::load_words<unsigned long long>(granule, address);
  else if (alignment == 4)
    detail::load_words<uint32_t>(granule, address);
  else if (alignment == 2)
    detail::load_words<uint16_t>(granule, address);
  else
    detail::load_words<uint8_t>(granule, address);
  return granule;
}

/// The first n bytes, one by one; the others are zero.
WEFT_INLINE Granule load_part(uint64_t address, uint32_t n) {
  Granule granule{};
  WEFT_DO_NOT_UNROLL
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t byte = reinterpret_cast<const volatile uint8_t*>(address)[i];
    WEFT_UNROLL
    for (uint32_t word = 0; word < 4; ++word)
      if (i / 4 == word) granule.words[word] |= byte << (i % 4 * 8);
  }
  return granule;
}

/// Stores the first n bytes as far as `data` (data_bytes()) has them, one by one.
WEFT_INLINE void store_part(uint64_t address, const Granule& granule, uint32_t n, uint32_t data) {
  WEFT_UNROLL
  for (uint32_t i = 0; i < 16; ++i)
    if (i < n && ((data >> i) & 1) != 0)
      reinterpret_cast<volatile uint8_t*>(address)[i] = detail::byte_of(granule, i);
}

WEFT_INLINE void store_granule(uint64_t address, const Granule& granule, uint32_t alignment, uint32_t data) {
  if (data != 0xffff) return store_part(address, granule, 16, data);
#ifdef __CUDA_ARCH__
  if (alignment == 16) {
    *reinterpret_cast<uint4*>(address) =
        make_uint4(granule.words[0], granule.words[1], granule.words[2], granule.words[3]);
    return;
  }
#endif
  if (alignment >= 8)
    detail::store_words<unsigned long long>(address, granule);
  else if (alignment == 4)
    detail::store_words<uint32_t>(address, granule);
  else if (alignment == 2)
    detail::store_words<uint16_t>(address, granule);
  else
    detail::store_words<uint8_t>(address, granule);
}

}  // namespace weft::device::kernel
