// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by lines (kernel/collective.hpp). What a warp stores or loads of a line by one
// instruction travels as a whole; so all its threads take part in every step, whether they have data or not.
#pragma once
#include "device/kernel/wire_device.cuh"

namespace weft::device::kernel {

/// Lines, by warps: eight threads have one, the last of them its flag.
struct ByLines {
  __device__ static Range share(uint64_t total, uint32_t block, uint32_t blocks) {
    return share_by_lines(total, block, blocks);
  }
  __device__ static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return Area::lines(area, step, source, size);
  }
  __device__ static void push(uint64_t slots, const Stretch& stretch, uint32_t flag);
  __device__ static bool take(uint64_t slots, const Stretch& stretch, const Collective& c);
  __device__ static bool reduce_messages(const Collective& c, uint32_t sources, Collective::Message out,
                                         Range mine);
  __device__ static bool reduce_part(const Collective& c, Range mine);
};

/// The lines of a warp, four at a time: those of a share of granules, `all` threads of which this is one.
class WarpLines {
 public:
  __device__ WarpLines(Range mine, uint32_t self, uint32_t all)
      : end_(static_cast<uint32_t>(mine.first + mine.count)),
        last_(static_cast<uint32_t>(Line::count(end_))),
        line_(static_cast<uint32_t>(mine.first) / Line::kGranules + self / 8),
        step_(all / 8) {}
  /// Some thread of the warp has a line.
  [[nodiscard]] __device__ bool more() const { return line_ - (threadIdx.x & 31) / 8 < last_; }
  __device__ void advance(uint32_t k) { line_ += k * step_; }
  /// The k-th line from here: whether there is one, and what this thread has of it.
  [[nodiscard]] __device__ bool has(uint32_t k) const { return line_ + k * step_ < last_; }
  [[nodiscard]] __device__ uint64_t at(uint32_t k) const {
    return uint64_t{sizeof(Line)} * (line_ + k * step_) + 16 * place();
  }
  [[nodiscard]] __device__ uint32_t granule(uint32_t k) const {
    return (line_ + k * step_) * Line::kGranules + place();
  }
  [[nodiscard]] __device__ bool has_granule(uint32_t k) const {
    return place() < Line::kGranules && granule(k) < end_;
  }
  [[nodiscard]] __device__ static bool flags() { return place() == Line::kGranules; }

 private:
  __device__ static uint32_t place() { return threadIdx.x & 7; }
  uint32_t end_, last_, line_, step_;
};

/// All threads of a warp: whether waiting is over. They may read different times: the first decides.
__device__ __forceinline__ bool over_together(Waiter& waiter) { return __shfl_sync(~0u, waiter.over(), 0); }

__device__ inline void ByLines::push(uint64_t slots, const Stretch& stretch, uint32_t flag) {
  constexpr uint32_t kAhead = 4;
  for (WarpLines lines(stretch.mine, stretch.self, stretch.all); lines.more(); lines.advance(kAhead)) {
    uint4 loaded[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      loaded[k] = make_uint4(flag, 0, 0, 0);
      if (lines.has_granule(k)) {
        const uint64_t g = stretch.skipped + lines.granule(k);
        loaded[k] = words_of(load_granule(stretch.message + 16 * g, valid(stretch.bytes, g)));
      }
    }
    __syncwarp();
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k)
      if (lines.has(k)) store_words(slots + lines.at(k), loaded[k]);
  }
}

__device__ inline bool ByLines::take(uint64_t slots, const Stretch& stretch, const Collective& c) {
  constexpr uint32_t kAhead = 4;
  Waiter waiter(c.patience);
  for (WarpLines lines(stretch.mine, stretch.self, stretch.all); lines.more(); lines.advance(kAhead)) {
    uint4 loaded[kAhead];
    for (;;) {
      bool missing = false;
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
        if (lines.has(k)) loaded[k] = load_words(slots + lines.at(k));
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
        missing = missing || (WarpLines::flags() && lines.has(k) && loaded[k].x != c.epoch);
      if (!__any_sync(~0u, missing)) break;
      if (over_together(waiter)) return false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      if (!lines.has_granule(k)) continue;
      const uint64_t g = stretch.skipped + lines.granule(k);
      store_granule(stretch.message + 16 * g, granule_of(loaded[k]), valid(stretch.bytes, g));
    }
  }
  return true;
}

/// The first step's lines here of the ranks of a set, combined in rank order granule by granule; all threads
/// of a warp. Four ranks' are awaited at a time.
__device__ __forceinline__ bool reduce_lines(const Collective& c, uint32_t ranks, const WarpLines& lines,
                                             bool due, Waiter& waiter, Granule& result) {
  constexpr uint32_t kBatch = 4;
  const bool sums = c.reduction.float_sum();
  const uint32_t stride = Area::line_stride(c.size);
  const uint64_t first = Area::lines(c.areas[c.rank], 0, 0, c.size) + lines.at(0);
  FloatSum sum;
  for (uint32_t from = 0; from < c.size; from += kBatch) {
    uint4 loaded[kBatch];
    for (;;) {
      bool missing = false;
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        if (due && member(ranks, from + i))
          loaded[i] = load_words(first + static_cast<uint64_t>(from + i) * stride);
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        missing = missing || (WarpLines::flags() && due && member(ranks, from + i) && loaded[i].x != c.epoch);
      if (!__any_sync(~0u, missing)) break;
      if (over_together(waiter)) return false;
    }
    if (!sums || !due) continue;
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (member(ranks, from + i)) sum.add(granule_of(loaded[i]));
  }
  if (sums)
    result = sum.get();
  else if (due && lines.has_granule(0))
    result = combined(c.reduction, ranks, first, stride, Lies::in_line);
  return true;
}

__device__ inline bool ByLines::reduce_messages(const Collective& c, uint32_t sources,
                                                Collective::Message out, Range mine) {
  Waiter waiter(c.patience);
  for (WarpLines lines(mine, threadIdx.x, blockDim.x); lines.more(); lines.advance(1)) {
    Granule result{};
    if (!reduce_lines(c, sources, lines, lines.has(0), waiter, result)) return false;
    if (const uint64_t g = lines.granule(0); lines.has_granule(0))
      store_granule(out.address + 16 * g, result, valid(out.bytes, g));
  }
  return true;
}

__device__ inline bool ByLines::reduce_part(const Collective& c, Range mine) {
  Waiter waiter(c.patience);
  const uint64_t behind = Area::lines(0, 1, c.rank, c.size);  // of this rank's lines, in every area
  for (WarpLines lines(mine, threadIdx.x, blockDim.x); lines.more(); lines.advance(1)) {
    bool due = lines.has(0);
    if (c.launch != 0) {
      const bool flag = WarpLines::flags() && due;
      const uint32_t given =
          __ballot_sync(~0u, flag && load_words(c.areas[c.rank] + behind + lines.at(0)).x == c.epoch);
      due = due && !member(given, (threadIdx.x & 31) | 7);
    }
    Granule result{};
    if (!reduce_lines(c, c.sources, lines, due, waiter, result)) return false;
    const uint4 words = WarpLines::flags() ? make_uint4(c.epoch, 0, 0, 0) : words_of(result);
    __syncwarp();
    for (uint32_t d = 1; d <= c.size; ++d) {
      const uint32_t to = after(c, d);
      if (due && (d == c.size || member(c.targets, to)))
        store_words(c.areas[to] + behind + lines.at(0), words);
    }
  }
  return true;
}

}  // namespace weft::device::kernel
