// SPDX-License-Identifier: BSD-3-Clause
// Device side of the LL128 protocol (kernel/collective.hpp). A line is whole only if the threads of a warp
// store or load it with one instruction, so all threads of a warp take part in every step, with or without
// data.
#pragma once
#include "device/kernel/protocol_device.cuh"

namespace weft::device::kernel {

/// The LL128 protocol: eight threads handle a line, the last of them its flag.
struct ProtoLL128 {
  __device__ static Range share(uint64_t total, uint32_t block, uint32_t blocks) {
    return share_by_ll128_lines(total, block, blocks);
  }
  __device__ static uint64_t slots(uint64_t region, uint32_t step, uint32_t source, uint32_t size) {
    return RegionLayout::ll128_lines(region, step, source, size);
  }
  __device__ static void push(uint64_t slots, const MessageSlice& slice, uint32_t flag);
  __device__ static bool receive(uint64_t slots, const MessageSlice& slice, const Collective& c);
  __device__ static bool reduce_messages(const Collective& c, uint32_t sources, Collective::Message out,
                                         Range mine);
  __device__ static bool reduce_part(const Collective& c, Range mine);
};

/// The lines of a warp in the vectors of a share; this thread is `self` of `all`.
class WarpLines {
 public:
  __device__ WarpLines(Range mine, uint32_t self, uint32_t all)
      : end_(static_cast<uint32_t>(mine.first + mine.count)),
        last_(static_cast<uint32_t>(LL128Line::count(end_))),
        line_(static_cast<uint32_t>(mine.first) / LL128Line::kVectors + self / 8),
        step_(all / 8) {}
  /// Returns whether some thread of the warp has a line.
  [[nodiscard]] __device__ bool more() const { return line_ - (threadIdx.x & 31) / 8 < last_; }
  __device__ void advance(uint32_t k) { line_ += k * step_; }
  /// The k-th line from here: whether the line exists, and which part this thread handles.
  [[nodiscard]] __device__ bool has(uint32_t k) const { return line_ + k * step_ < last_; }
  [[nodiscard]] __device__ uint64_t at(uint32_t k) const {
    return uint64_t{sizeof(LL128Line)} * (line_ + k * step_) + 16 * index_in_line();
  }
  [[nodiscard]] __device__ uint32_t vec(uint32_t k) const {
    return (line_ + k * step_) * LL128Line::kVectors + index_in_line();
  }
  [[nodiscard]] __device__ bool has_vec(uint32_t k) const {
    return index_in_line() < LL128Line::kVectors && vec(k) < end_;
  }
  [[nodiscard]] __device__ static bool flags() { return index_in_line() == LL128Line::kVectors; }

 private:
  __device__ static uint32_t index_in_line() { return threadIdx.x & 7; }
  uint32_t end_, last_, line_, step_;
};

/// Called by all threads of a warp. The threads may read different times: thread 0 decides.
__device__ __forceinline__ bool warp_timed_out(Timeout& timeout) {
  return __shfl_sync(~0u, timeout.expired(), 0);
}

__device__ inline void ProtoLL128::push(uint64_t slots, const MessageSlice& slice, uint32_t flag) {
  constexpr uint32_t kInFlight = 4;
  for (WarpLines lines(slice.mine, slice.self, slice.all); lines.more(); lines.advance(kInFlight)) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k) {
      loaded[k] = make_uint4(flag, 0, 0, 0);
      if (lines.has_vec(k)) {
        const uint64_t g = slice.skipped + lines.vec(k);
        loaded[k] = words_of(load_vec16(slice.message + 16 * g, valid_bytes(slice.bytes, g)));
      }
    }
    __syncwarp();
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
      if (lines.has(k)) store_words(slots + lines.at(k), loaded[k]);
  }
}

__device__ inline bool ProtoLL128::receive(uint64_t slots, const MessageSlice& slice, const Collective& c) {
  constexpr uint32_t kInFlight = 4;
  Timeout timeout(c.timeout_ns);
  for (WarpLines lines(slice.mine, slice.self, slice.all); lines.more(); lines.advance(kInFlight)) {
    uint4 loaded[kInFlight];
    for (;;) {
      bool missing = false;
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; ++k)
        if (lines.has(k)) loaded[k] = load_words(slots + lines.at(k));
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; ++k)
        missing = missing || (WarpLines::flags() && lines.has(k) && loaded[k].x != c.epoch);
      if (!__any_sync(~0u, missing)) break;
      if (warp_timed_out(timeout)) return false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k) {
      if (!lines.has_vec(k)) continue;
      const uint64_t g = slice.skipped + lines.vec(k);
      store_vec16(slice.message + 16 * g, to_vec16(loaded[k]), valid_bytes(slice.bytes, g));
    }
  }
  return true;
}

/// Combines the step-0 lines of the ranks of a set in rank order, polling four ranks at a time. Called by all
/// threads of a warp. Returns false on timeout.
__device__ __forceinline__ bool reduce_lines(const Collective& c, uint32_t ranks, const WarpLines& lines,
                                             bool pending, Timeout& timeout, Vec16& result) {
  constexpr uint32_t kBatch = 4;
  const bool sums = c.reduction.float_sum();
  const uint32_t stride = RegionLayout::ll128_stride(c.size);
  const uint64_t first = RegionLayout::ll128_lines(c.regions[c.rank], 0, 0, c.size) + lines.at(0);
  FloatSum sum;
  for (uint32_t from = 0; from < c.size; from += kBatch) {
    uint4 loaded[kBatch];
    for (;;) {
      bool missing = false;
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        if (pending && member(ranks, from + i))
          loaded[i] = load_words(first + static_cast<uint64_t>(from + i) * stride);
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        missing =
            missing || (WarpLines::flags() && pending && member(ranks, from + i) && loaded[i].x != c.epoch);
      if (!__any_sync(~0u, missing)) break;
      if (warp_timed_out(timeout)) return false;
    }
    if (!sums || !pending) continue;
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (member(ranks, from + i)) sum.add(to_vec16(loaded[i]));
  }
  if (sums)
    result = sum.get();
  else if (pending && lines.has_vec(0))
    result = combined(c.reduction, ranks, first, stride, TermLayout::ll128_line);
  return true;
}

__device__ inline bool ProtoLL128::reduce_messages(const Collective& c, uint32_t sources,
                                                   Collective::Message out, Range mine) {
  Timeout timeout(c.timeout_ns);
  for (WarpLines lines(mine, threadIdx.x, blockDim.x); lines.more(); lines.advance(1)) {
    Vec16 result{};
    if (!reduce_lines(c, sources, lines, lines.has(0), timeout, result)) return false;
    if (const uint64_t g = lines.vec(0); lines.has_vec(0))
      store_vec16(out.address + 16 * g, result, valid_bytes(out.bytes, g));
  }
  return true;
}

__device__ inline bool ProtoLL128::reduce_part(const Collective& c, Range mine) {
  Timeout timeout(c.timeout_ns);
  const uint64_t step1_offset =
      RegionLayout::ll128_lines(0, 1, c.rank, c.size);  // offset of the lines of this rank in every region
  for (WarpLines lines(mine, threadIdx.x, blockDim.x); lines.more(); lines.advance(1)) {
    bool pending = lines.has(0);
    if (c.launch != 0) {
      const bool flag = WarpLines::flags() && pending;
      const uint32_t given =
          __ballot_sync(~0u, flag && load_words(c.regions[c.rank] + step1_offset + lines.at(0)).x == c.epoch);
      pending = pending && !member(given, (threadIdx.x & 31) | 7);
    }
    Vec16 result{};
    if (!reduce_lines(c, c.sources, lines, pending, timeout, result)) return false;
    const uint4 words = WarpLines::flags() ? make_uint4(c.epoch, 0, 0, 0) : words_of(result);
    __syncwarp();
    for (uint32_t d = 1; d <= c.size; ++d) {
      const uint32_t to = after(c, d);
      if (pending && (d == c.size || member(c.targets, to)))
        store_words(c.regions[to] + step1_offset + lines.at(0), words);
    }
  }
  return true;
}

}  // namespace weft::device::kernel
