// SPDX-License-Identifier: BSD-3-Clause
// Loads and stores of 16-byte vectors at any alignment, of whole vectors and of partial ones, without
// touching the padding of a pair. C++17; for kernels and for their host emulation.
#pragma once
#include "device/kernel/element.hpp"

namespace weft::device::kernel {

namespace detail {

/// Loads n words of this type, bypassing the L1 cache: the data may have changed since the last load.
template <class Word>
WEFT_INLINE void load_words(Vec16& vec, uint64_t address) {
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
    put_lane<Word>(vec.words, i, word);
  }
}

template <class Word>
WEFT_INLINE void store_words(uint64_t address, const Vec16& vec) {
  constexpr int kWords = 16 / sizeof(Word);
  auto* to = reinterpret_cast<Word*>(address);
  WEFT_UNROLL
  for (int i = 0; i < kWords; ++i) {
    const Word word = lane_of<Word>(vec.words, i);
#ifdef __CUDA_ARCH__
    to[i] = word;
#else
    memcpy(to + i, &word, sizeof word);
#endif
  }
}

WEFT_INLINE uint8_t byte_of(const Vec16& vec, uint32_t i) {
  return static_cast<uint8_t>(vec.words[i / 4] >> (i % 4 * 8));
}

}  // namespace detail

/// Loads 16 bytes from an address that is a multiple of `alignment`: 1, 2, 4, 8 or 16.
WEFT_INLINE Vec16 load_vec16(uint64_t address, uint32_t alignment) {
  Vec16 vec{};
#ifdef __CUDA_ARCH__
  if (alignment == 16) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address));
    return {{words.x, words.y, words.z, words.w}};
  }
#endif
  if (alignment >= 8)
    detail::load_words<unsigned long long>(vec, address);
  else if (alignment == 4)
    detail::load_words<uint32_t>(vec, address);
  else if (alignment == 2)
    detail::load_words<uint16_t>(vec, address);
  else
    detail::load_words<uint8_t>(vec, address);
  return vec;
}

/// Loads the first n bytes one by one; the rest is zero.
WEFT_INLINE Vec16 load_part(uint64_t address, uint32_t n) {
  Vec16 vec{};
  WEFT_DO_NOT_UNROLL
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t byte = reinterpret_cast<const volatile uint8_t*>(address)[i];
    WEFT_UNROLL
    for (uint32_t word = 0; word < 4; ++word)
      if (i / 4 == word) vec.words[word] |= byte << (i % 4 * 8);
  }
  return vec;
}

/// Stores the first n bytes one by one, but only those in the mask `data` (data_bytes()).
WEFT_INLINE void store_part(uint64_t address, const Vec16& vec, uint32_t n, uint32_t data) {
  WEFT_UNROLL
  for (uint32_t i = 0; i < 16; ++i)
    if (i < n && ((data >> i) & 1) != 0)
      reinterpret_cast<volatile uint8_t*>(address)[i] = detail::byte_of(vec, i);
}

WEFT_INLINE void store_vec16(uint64_t address, const Vec16& vec, uint32_t alignment, uint32_t data) {
  if (data != 0xffff) return store_part(address, vec, 16, data);
#ifdef __CUDA_ARCH__
  if (alignment == 16) {
    *reinterpret_cast<uint4*>(address) = make_uint4(vec.words[0], vec.words[1], vec.words[2], vec.words[3]);
    return;
  }
#endif
  if (alignment >= 8)
    detail::store_words<unsigned long long>(address, vec);
  else if (alignment == 4)
    detail::store_words<uint32_t>(address, vec);
  else if (alignment == 2)
    detail::store_words<uint16_t>(address, vec);
  else
    detail::store_words<uint8_t>(address, vec);
}

}  // namespace weft::device::kernel
