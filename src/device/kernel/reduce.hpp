// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, reduce.cu and the emulated driver: the reduction kernel, and the computation of
// one 16-byte vector. C++17.
#pragma once
#include "device/kernel/vec16.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_reduce(Reduce)`: dst[i] = sources[0][i] op sources[1][i] op ..., in this order. dst may
/// be one of the sources; otherwise nothing overlaps.
struct Reduce {
  static constexpr uint32_t kTerms = 16, kThreads = 512;
  static constexpr uint32_t kBatch = 4;     ///< 16-byte vectors that a thread has in flight
  static constexpr uint32_t kBlocks = 264;  ///< at most: two for each multiprocessor of a large GPU
  uint64_t dst;
  uint64_t sources[kTerms];
  uint64_t bytes;      ///< of an operand: whole elements
  uint32_t terms;      ///< 1 to kTerms
  uint32_t head;       ///< bytes before the first aligned vector, whole elements, less than 16
  uint32_t alignment;  ///< of all addresses after the head: 1, 2, 4, 8 or 16
  Reduction reduction;

  /// Work items: the 16-byte vectors, the tail, and the head.
  WEFT_INLINE uint64_t vectors() const { return (bytes - head) / 16; }
  WEFT_INLINE uint64_t items() const { return vectors() + 2; }
};

/// Offset and length of a work item: 16 bytes, or fewer at an end.
struct ReduceItem {
  uint64_t offset;
  uint32_t bytes;
  WEFT_INLINE ReduceItem(const Reduce& p, uint64_t item)
      : offset(item > p.vectors() ? 0 : p.head + 16 * item), bytes(16) {
    if (item == p.vectors()) bytes = static_cast<uint32_t>((p.bytes - p.head) % 16);
    if (item > p.vectors()) bytes = p.head;
  }
};

/// Reduces items first, first + stride, ...: at most kBatch of them.
WEFT_INLINE void reduce_batch(const Reduce& p, uint64_t first, uint64_t stride) {
  constexpr int kBatch = Reduce::kBatch;
  const uint64_t items = p.items();
  const auto load = [&](uint32_t term, Vec16(&loaded)[kBatch]) {
    WEFT_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      const uint64_t item = first + k * stride;
      if (item >= items) continue;
      const ReduceItem item_range(p, item);
      const uint64_t from = p.sources[term] + item_range.offset;
      loaded[k] = item_range.bytes == 16 ? load_vec16(from, p.alignment) : load_part(from, item_range.bytes);
    }
  };
  Vec16 loaded[kBatch] = {};
  Accumulator sums[kBatch];
  load(0, loaded);
  WEFT_UNROLL
  for (int k = 0; k < kBatch; ++k) sums[k] = start(p.reduction.element, loaded[k]);
  WEFT_DO_NOT_UNROLL
  for (uint32_t term = 1; term < p.terms; ++term) {
    load(term, loaded);
    add(p.reduction, sums, loaded);
  }
  const uint32_t data = data_bytes(p.reduction.element);
  WEFT_UNROLL
  for (int k = 0; k < kBatch; ++k) {
    const uint64_t item = first + k * stride;
    if (item >= items) continue;
    const ReduceItem item_range(p, item);
    const Vec16 result = finish(p.reduction.element, sums[k]);
    if (item_range.bytes == 16)
      store_vec16(p.dst + item_range.offset, result, p.alignment, data);
    else
      store_part(p.dst + item_range.offset, result, item_range.bytes, data);
  }
}

/// Sets head and alignment from the addresses.
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
