// SPDX-License-Identifier: BSD-3-Clause
// The reduction kernel: what host code, reduce.cu and the emulated driver agree on, and what is computed for
// one granule. C++17.
#pragma once
#include "device/kernel/granule.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_reduce(Reduce)`: dst[i] = sources[0][i] op sources[1][i] op ..., in this order. dst may
/// be one of the sources; otherwise nothing overlaps.
struct Reduce {
  static constexpr uint32_t kTerms = 16, kThreads = 512;
  static constexpr uint32_t kBatch = 4;     ///< granules that a thread has under way
  static constexpr uint32_t kBlocks = 264;  ///< at most: two for each multiprocessor of a large GPU
  uint64_t dst;
  uint64_t sources[kTerms];
  uint64_t bytes;      ///< of a vector: whole elements
  uint32_t terms;      ///< 1 to kTerms
  uint32_t head;       ///< bytes before the first granule, whole elements, less than 16
  uint32_t alignment;  ///< of all addresses behind the head: 1, 2, 4, 8 or 16
  Reduction reduction;

  /// Items of work: the granules, what is behind the last, and the head.
  WEFT_INLINE uint64_t granules() const { return (bytes - head) / 16; }
  WEFT_INLINE uint64_t items() const { return granules() + 2; }
};

/// Where an item lies in the vectors, and its bytes: 16, or fewer at an end.
struct ReducePlace {
  uint64_t offset;
  uint32_t bytes;
  WEFT_INLINE ReducePlace(const Reduce& p, uint64_t item)
      : offset(item > p.granules() ? 0 : p.head + 16 * item), bytes(16) {
    if (item == p.granules()) bytes = static_cast<uint32_t>((p.bytes - p.head) % 16);
    if (item > p.granules()) bytes = p.head;
  }
};

/// Items first, first + stride, ...: kBatch of them, as far as there are so many.
WEFT_INLINE void reduce_batch(const Reduce& p, uint64_t first, uint64_t stride) {
  constexpr int kBatch = Reduce::kBatch;
  const uint64_t items = p.items();
  const auto load = [&](uint32_t term, Granule(&granules)[kBatch]) {
    WEFT_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      const uint64_t item = first + k * stride;
      if (item >= items) continue;
      const ReducePlace place(p, item);
      const uint64_t from = p.sources[term] + place.offset;
      granules[k] = place.bytes == 16 ? load_granule(from, p.alignment) : load_part(from, place.bytes);
    }
  };
  Granule granules[kBatch] = {};
  Accumulator sums[kBatch];
  load(0, granules);
  WEFT_UNROLL
  for (int k = 0; k < kBatch; ++k) sums[k] = start(p.reduction.element, granules[k]);
  WEFT_DO_NOT_UNROLL
  for (uint32_t term = 1; term < p.terms; ++term) {
    load(term, granules);
    add(p.reduction, sums, granules);
  }
  const uint32_t data = data_bytes(p.reduction.element);
  WEFT_UNROLL
  for (int k = 0; k < kBatch; ++k) {
    const uint64_t item = first + k * stride;
    if (item >= items) continue;
    const ReducePlace place(p, item);
    const Granule result = finish(p.reduction.element, sums[k]);
    if (place.bytes == 16)
      store_granule(p.dst + place.offset, result, p.alignment, data);
    else
      store_part(p.dst + place.offset, result, place.bytes, data);
  }
}

/// How the vectors lie: sets head and alignment.
inline void align(Reduce& p) {
  uint64_t differences = 0, any = p.dst;
  for (uint32_t i = 0; i < p.terms; ++i) {
    differences |= p.dst ^ p.sources[i];
    any |= p.sources[i];
  }
  const auto to_boundary = static_cast<uint32_t>(-p.dst & 15);
  const bool together = (differences & 15) == 0 && to_boundary % element_size(p.reduction.element) == 0 &&
                        to_boundary <= p.bytes;
  p.head = together ? to_boundary : 0;
  p.alignment = together ? 16 : static_cast<uint32_t>((any & -any) & 15);
}

}  // namespace weft::device::kernel
