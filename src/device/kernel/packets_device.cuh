// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by packets (kernel/collective.hpp). Half a granule travels in one.
#pragma once
#include "device/kernel/wire_device.cuh"

namespace weft::device::kernel {

/// Half a granule, which travels in one packet: up to 8 bytes at any address, zero behind them. Neighbouring
/// threads have neighbouring packets, so that a warp's stores fill lines.
__device__ __forceinline__ uint2 load_half(uint64_t from, uint32_t bytes) {
  if (bytes == 8 && (from & 7) == 0) return __ldcv(reinterpret_cast<const uint2*>(from));
  const Granule g = load_granule(from, bytes);
  return make_uint2(g.words[0], g.words[1]);
}
__device__ __forceinline__ void store_half(uint64_t to, uint2 half, uint32_t bytes) {
  if (bytes == 8 && (to & 7) == 0)
    *reinterpret_cast<uint2*>(to) = half;
  else
    store_granule(to, {{half.x, half.y, 0, 0}}, bytes);
}
/// Bytes of half h of a message.
__device__ __forceinline__ uint32_t valid_half(uint64_t bytes, uint64_t h) {
  return 8 * h < bytes ? static_cast<uint32_t>(bytes - 8 * h < 8 ? bytes - 8 * h : 8) : 0;
}

__device__ __forceinline__ void store_packet(uint64_t at, uint32_t low, uint32_t high, uint32_t flag) {
  store_words(at, make_uint4(low, flag, high, flag));
}
__device__ __forceinline__ bool present(const uint4& p, uint32_t flag) { return p.y == flag && p.w == flag; }
__device__ __forceinline__ bool arrived(uint64_t granule, uint32_t flag) {
  return present(load_words(granule), flag) && present(load_words(granule + 16), flag);
}

/// Its halves, `first` to `last`, of which a thread takes every `all`th. Half h of the message travels as
/// packet h - skipped.
struct Halves {
  uint64_t message, bytes, skipped;
  uint32_t first, last, self, all;
  __device__ explicit Halves(const Stretch& stretch)
      : message(stretch.message),
        bytes(stretch.bytes),
        skipped(2 * stretch.skipped),
        first(static_cast<uint32_t>(2 * stretch.mine.first)),
        last(static_cast<uint32_t>(2 * (stretch.mine.first + stretch.mine.count))),
        self(stretch.self),
        all(stretch.all) {}
};

constexpr uint32_t kHalvesAhead = 4;  // of a thread: a launch has about as many threads as granules

/// The first step's packets of one granule, of all ranks.
struct Terms {
  uint64_t packets;  ///< of rank 0
  uint32_t stride, size, flag;
  __device__ Terms(const Collective& c, uint32_t first_stride)
      : packets(c.areas[c.rank]), stride(first_stride), size(c.size), flag(c.epoch) {}
};

/// What the ranks of a set have sent of granule g, combined in rank order. Four are awaited at a time.
__device__ __forceinline__ bool reduce(const Collective& c, const Terms& all, uint32_t ranks, uint64_t g,
                                       Waiter& waiter, Granule& result) {
  constexpr uint32_t kBatch = 4;
  const bool sums = c.reduction.float_sum();
  const uint64_t first = all.packets + 32 * g;
  FloatSum sum;
  for (uint32_t from = 0; from < all.size; from += kBatch) {
    uint4 low[kBatch], high[kBatch];
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (!member(ranks, from + i)) continue;
        const uint64_t at = first + static_cast<uint64_t>(from + i) * all.stride;
        low[i] = load_words(at);
        high[i] = load_words(at + 16);
      }
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        if (member(ranks, from + i))
          missing = missing || !present(low[i], all.flag) || !present(high[i], all.flag);
      if (missing && waiter.over()) return false;
    }
    if (!sums) continue;
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (member(ranks, from + i)) sum.add(low[i], high[i]);
  }
  result = sums ? sum.get() : combined(c.reduction, ranks, first, all.stride, Lies::in_packets);
  return true;
}

/// The granules of a warp's threads as packets side by side: thread i has packets i and 32 + i of the warp's.
struct Spread {
  uint32_t low[2], high[2];
  bool has[2];
  /// All threads of a warp; `own` says which have one.
  __device__ __forceinline__ Spread(const Granule& granule, bool own) {
    const uint32_t lane = threadIdx.x & 31, owners = __ballot_sync(~0u, own);
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const uint32_t from = 16 * k + lane / 2;
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(~0u, granule.words[i], from);
      low[k] = lane % 2 != 0 ? words[2] : words[0];
      high[k] = lane % 2 != 0 ? words[3] : words[1];
      has[k] = member(owners, from);
    }
  }
  /// To the packets of the warp's first granule, and behind them.
  __device__ __forceinline__ void put(uint64_t packets, uint32_t flag) const {
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k)
      if (has[k]) store_packet(packets + 16 * (32 * k + (threadIdx.x & 31)), low[k], high[k], flag);
  }
};

/// The wire of packets.
struct ByPackets {
  __device__ static Range share(uint64_t total, uint32_t block, uint32_t blocks) {
    return kernel::share(total, block, blocks);
  }
  __device__ static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return Area::packets(area, step, source, size);
  }
  /// A stretch goes out, so many halves of a thread at once.
  __device__ static void push(uint64_t slots, const Stretch& stretch, uint32_t flag);
  /// It is awaited and stored; false: in vain.
  __device__ static bool take(uint64_t slots, const Stretch& stretch, const Collective& c);
  /// Terms of all sources, combined into `out`.
  __device__ static bool reduce_messages(const Collective& c, uint32_t sources, Collective::Message out,
                                         Range mine);
  /// Own part: combined, and given to all targets, to this rank last: what lies there has gone out before.
  __device__ static bool reduce_part(const Collective& c, Range mine);
};

__device__ __forceinline__ void ByPackets::push(uint64_t slots, const Stretch& stretch, uint32_t flag) {
  const Halves halves(stretch);
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kHalvesAhead * halves.all) {
    uint2 loaded[kHalvesAhead];
#pragma unroll
    for (uint32_t k = 0; k < kHalvesAhead; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        loaded[k] = load_half(halves.message + 8 * h, valid_half(halves.bytes, h));
    }
#pragma unroll
    for (uint32_t k = 0; k < kHalvesAhead; ++k)
      if (const uint32_t at = i + k * halves.all; at < halves.last)
        store_packet(slots + 16ull * at, loaded[k].x, loaded[k].y, flag);
  }
}

__device__ __forceinline__ bool ByPackets::take(uint64_t slots, const Stretch& stretch, const Collective& c) {
  Waiter waiter(c.patience);
  const Halves halves(stretch);
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kHalvesAhead * halves.all) {
    uint4 loaded[kHalvesAhead];
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (uint32_t k = 0; k < kHalvesAhead; ++k)
        if (const uint32_t at = i + k * halves.all; at < halves.last)
          loaded[k] = load_words(slots + 16ull * at);
#pragma unroll
      for (uint32_t k = 0; k < kHalvesAhead; ++k)
        missing = missing || (i + k * halves.all < halves.last && !present(loaded[k], c.epoch));
      if (missing && waiter.over()) return false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kHalvesAhead; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        store_half(halves.message + 8 * h, make_uint2(loaded[k].x, loaded[k].z), valid_half(halves.bytes, h));
    }
  }
  return true;
}

__device__ inline bool ByPackets::reduce_messages(const Collective& c, uint32_t sources,
                                                  Collective::Message out, Range mine) {
  Waiter waiter(c.patience);
  const Terms terms(c, Area::stride(c.size));
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    const uint64_t g = mine.first + i;
    Granule result;
    if (!reduce(c, terms, sources, g, waiter, result)) return false;
    store_granule(out.address + 16 * g, result, valid(out.bytes, g));
  }
  return true;
}

__device__ inline bool ByPackets::reduce_part(const Collective& c, Range mine) {
  Waiter waiter(c.patience);
  const uint32_t size = c.size, flag = c.epoch, stride = Area::stride(size);
  const Terms terms(c, stride);
  const uint64_t behind = Area::packets(0, 1, c.rank, size);  // of this rank's packets, in every area
  for (uint64_t first = threadIdx.x & ~31u; first < mine.count; first += blockDim.x) {
    const uint64_t i = first + (threadIdx.x & 31), g = mine.first + i;
    const bool due = i < mine.count && !(c.launch != 0 && arrived(c.areas[c.rank] + behind + 32 * g, flag));
    Granule result{};
    const bool late = due && !reduce(c, terms, c.sources, g, waiter, result);
    const Spread spread(result, due && !late);
    for (uint32_t d = 1; d <= size; ++d) {
      const uint32_t to = after(c, d);
      if (d == size || member(c.targets, to))
        spread.put(c.areas[to] + behind + 32 * (mine.first + first), flag);
    }
    if (__any_sync(~0u, late)) return false;
  }
  return true;
}

}  // namespace weft::device::kernel
