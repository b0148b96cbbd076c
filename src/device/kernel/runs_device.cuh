// SPDX-License-Identifier: BSD-3-Clause
// Device code for data with regular layouts (Runs): loads and stores of up to 8 bytes of the packed data, and
// copies of words.
#pragma once
#include "device/kernel/enqueue.hpp"

namespace weft::device::kernel::enqueue {

/// Loads up to 8 bytes at any alignment.
__device__ __forceinline__ uint64_t gather(uint64_t from, uint64_t bytes) {
  if (bytes >= 8 && (from & 7) == 0) return __ldcg(reinterpret_cast<const unsigned long long*>(from));
  uint64_t data = 0;
  for (uint32_t i = 0; i < 8 && i < bytes; ++i)
    data |= static_cast<uint64_t>(__ldcg(reinterpret_cast<const unsigned char*>(from) + i)) << 8 * i;
  return data;
}
__device__ __forceinline__ void scatter(uint64_t to, uint64_t bytes, uint64_t data) {
  if (bytes >= 8 && (to & 7) == 0) {
    *reinterpret_cast<unsigned long long*>(to) = data;
    return;
  }
  for (uint32_t i = 0; i < 8 && i < bytes; ++i)
    reinterpret_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(data >> 8 * i);
}

/// Calls function(address, first, n) for the parts, within words, of up to 8 bytes of the packed data at
/// `at`.
template <class Function>
__device__ __forceinline__ void for_parts(const Runs& runs, uint64_t address, uint64_t at, uint64_t bytes,
                                          Function&& function) {
  const uint32_t n = bytes < 8 ? static_cast<uint32_t>(bytes) : 8, word = runs.word;
  const uint32_t shift = 31 - __clz(static_cast<int>(word));
  for (uint32_t first = 0; first < n;) {
    const auto index = static_cast<uint32_t>((at + first) >> shift);
    const auto in_word = static_cast<uint32_t>(at + first) & (word - 1);
    const uint32_t length = min(word - in_word, n - first);
    function(address + static_cast<uint64_t>(displacement_of(runs, index)) + in_word, first, length);
    first += length;
  }
}
__device__ __forceinline__ uint64_t gather(const Runs& runs, uint64_t address, uint64_t at, uint64_t bytes) {
  uint64_t data = 0;
  for_parts(runs, address, at, bytes, [&](uint64_t from, uint32_t first, uint32_t length) {
    data |= gather(from, length) << 8 * first;
  });
  return data;
}
__device__ __forceinline__ void scatter(const Runs& runs, uint64_t address, uint64_t at, uint64_t bytes,
                                        uint64_t data) {
  for_parts(runs, address, at, bytes,
            [&](uint64_t to, uint32_t first, uint32_t length) { scatter(to, length, data >> 8 * first); });
}

/// The layout of contiguous words.
__device__ __forceinline__ Runs contiguous_runs(uint32_t word) {
  Runs runs;
  runs.dimensions = 0;
  runs.word = static_cast<uint16_t>(word);
  runs.run.divisor = ~0u;
  runs.run.multiplier = 2;  // as Divisor(~0u)
  runs.run.shift = 32;
  return runs;
}

/// One side of a copy of words: the address and layout of the data, and the first word to copy.
struct RunsSide {
  uint64_t address;
  Runs runs;
  uint32_t first;
  [[nodiscard]] __device__ __forceinline__ uint64_t at(uint32_t i) const {
    return address + static_cast<uint64_t>(displacement_of(runs, first + i));
  }
};

/// All threads: moves n words, all loads of a batch before its first store.
template <class Word>
__device__ __forceinline__ void move_words(const RunsSide& to, const RunsSide& from, uint32_t n) {
  constexpr uint32_t kBatch = 4;
  for (uint32_t begin = threadIdx.x; begin < n; begin += kBatch * blockDim.x) {
    Word words[kBatch];
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k)
      if (begin + k * blockDim.x < n)
        words[k] = __ldcv(reinterpret_cast<const Word*>(from.at(begin + k * blockDim.x)));
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k)
      if (begin + k * blockDim.x < n) *reinterpret_cast<Word*>(to.at(begin + k * blockDim.x)) = words[k];
  }
}

/// The same for words of the size that both sides have.
__device__ __forceinline__ void move_words(const RunsSide& to, const RunsSide& from, uint32_t n,
                                           uint32_t word) {
  switch (word) {
    case 16:
      return move_words<uint4>(to, from, n);
    case 8:
      return move_words<uint2>(to, from, n);
    case 4:
      return move_words<uint32_t>(to, from, n);
    case 2:
      return move_words<uint16_t>(to, from, n);
    default:
      return move_words<uint8_t>(to, from, n);
  }
}

}  // namespace weft::device::kernel::enqueue
