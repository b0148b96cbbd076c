// SPDX-License-Identifier: BSD-3-Clause
// Device side of the LL protocol (kernel/collective.hpp). One packet carries half a vector.
#pragma once
#include "device/kernel/protocol_device.cuh"

namespace weft::device::kernel {

/// Loads the payload of a packet: up to 8 bytes at any address, zero-filled. Neighbouring threads handle
/// neighbouring packets, so the stores of a warp coalesce.
__device__ __forceinline__ uint2 load_half(uint64_t from, uint32_t bytes) {
  if (bytes == 8 && (from & 7) == 0) return __ldcv(reinterpret_cast<const uint2*>(from));
  const Vec16 g = load_vec16(from, bytes);
  return make_uint2(g.words[0], g.words[1]);
}
__device__ __forceinline__ void store_half(uint64_t to, uint2 half, uint32_t bytes) {
  if (bytes == 8 && (to & 7) == 0)
    *reinterpret_cast<uint2*>(to) = half;
  else
    store_vec16(to, {{half.x, half.y, 0, 0}}, bytes);
}
/// Bytes of half h of a message.
__device__ __forceinline__ uint32_t valid_half_bytes(uint64_t bytes, uint64_t h) {
  return 8 * h < bytes ? static_cast<uint32_t>(bytes - 8 * h < 8 ? bytes - 8 * h : 8) : 0;
}

__device__ __forceinline__ void store_packet(uint64_t at, uint32_t low, uint32_t high, uint32_t flag) {
  store_words(at, make_uint4(low, flag, high, flag));
}
__device__ __forceinline__ bool present(const uint4& p, uint32_t flag) { return p.y == flag && p.w == flag; }
__device__ __forceinline__ bool arrived(uint64_t vec, uint32_t flag) {
  return present(load_words(vec), flag) && present(load_words(vec + 16), flag);
}

/// The halves [first, last) of a slice; a thread handles every `all`-th. Half h of the message travels as
/// packet h - skipped.
struct Halves {
  uint64_t message, bytes, skipped;
  uint32_t first, last, self, all;
  __device__ explicit Halves(const MessageSlice& slice)
      : message(slice.message),
        bytes(slice.bytes),
        skipped(2 * slice.skipped),
        first(static_cast<uint32_t>(2 * slice.mine.first)),
        last(static_cast<uint32_t>(2 * (slice.mine.first + slice.mine.count))),
        self(slice.self),
        all(slice.all) {}
};

constexpr uint32_t kHalvesInFlight = 4;  // per thread: a launch has about as many threads as vectors

/// The step-0 packets of one vector from all ranks.
struct FirstStepTerms {
  uint64_t packets;  ///< of rank 0
  uint32_t stride, size, flag;
  __device__ FirstStepTerms(const Collective& c, uint32_t first_stride)
      : packets(c.regions[c.rank]), stride(first_stride), size(c.size), flag(c.epoch) {}
};

/// Combines vector g of the ranks of a set in rank order, polling four ranks at a time. Returns false on
/// timeout.
__device__ __forceinline__ bool reduce(const Collective& c, const FirstStepTerms& all, uint32_t ranks,
                                       uint64_t g, Timeout& timeout, Vec16& result) {
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
      if (missing && timeout.expired()) return false;
    }
    if (!sums) continue;
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (member(ranks, from + i)) sum.add(low[i], high[i]);
  }
  result = sums ? sum.get() : combined(c.reduction, ranks, first, all.stride, TermLayout::ll_packets);
  return true;
}

/// Redistributes the vectors of a warp so that stores coalesce: thread i holds packets i and 32 + i of the
/// warp.
struct WarpPackets {
  uint32_t low[2], high[2];
  bool has[2];
  /// Called by all threads of a warp; `own`: this thread has a vector.
  __device__ __forceinline__ WarpPackets(const Vec16& vec, bool own) {
    const uint32_t lane = threadIdx.x & 31, owners = __ballot_sync(~0u, own);
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const uint32_t from = 16 * k + lane / 2;
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(~0u, vec.words[i], from);
      low[k] = lane % 2 != 0 ? words[2] : words[0];
      high[k] = lane % 2 != 0 ? words[3] : words[1];
      has[k] = member(owners, from);
    }
  }
  /// Stores the packets of the warp; `packets` is the address of the first one.
  __device__ __forceinline__ void put(uint64_t packets, uint32_t flag) const {
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k)
      if (has[k]) store_packet(packets + 16 * (32 * k + (threadIdx.x & 31)), low[k], high[k], flag);
  }
};

/// The LL protocol.
struct ProtoLL {
  __device__ static Range share(uint64_t total, uint32_t block, uint32_t blocks) {
    return kernel::share(total, block, blocks);
  }
  __device__ static uint64_t slots(uint64_t region, uint32_t step, uint32_t source, uint32_t size) {
    return RegionLayout::ll_packets(region, step, source, size);
  }
  /// Pushes a slice, kHalvesInFlight halves of a thread at a time.
  __device__ static void push(uint64_t slots, const MessageSlice& slice, uint32_t flag);
  /// Waits for a slice and stores it. Returns false on timeout.
  __device__ static bool receive(uint64_t slots, const MessageSlice& slice, const Collective& c);
  /// Combines the terms of all sources into `out`. Returns false on timeout.
  __device__ static bool reduce_messages(const Collective& c, uint32_t sources, Collective::Message out,
                                         Range mine);
  /// Reduces the own part and sends the result to all targets. This rank comes last: its packets mark the
  /// vector as sent. Returns false on timeout.
  __device__ static bool reduce_part(const Collective& c, Range mine);
};

__device__ __forceinline__ void ProtoLL::push(uint64_t slots, const MessageSlice& slice, uint32_t flag) {
  const Halves halves(slice);
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kHalvesInFlight * halves.all) {
    uint2 loaded[kHalvesInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kHalvesInFlight; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        loaded[k] = load_half(halves.message + 8 * h, valid_half_bytes(halves.bytes, h));
    }
#pragma unroll
    for (uint32_t k = 0; k < kHalvesInFlight; ++k)
      if (const uint32_t at = i + k * halves.all; at < halves.last)
        store_packet(slots + 16ull * at, loaded[k].x, loaded[k].y, flag);
  }
}

__device__ __forceinline__ bool ProtoLL::receive(uint64_t slots, const MessageSlice& slice,
                                                 const Collective& c) {
  Timeout timeout(c.timeout_ns);
  const Halves halves(slice);
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kHalvesInFlight * halves.all) {
    uint4 loaded[kHalvesInFlight];
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (uint32_t k = 0; k < kHalvesInFlight; ++k)
        if (const uint32_t at = i + k * halves.all; at < halves.last)
          loaded[k] = load_words(slots + 16ull * at);
#pragma unroll
      for (uint32_t k = 0; k < kHalvesInFlight; ++k)
        missing = missing || (i + k * halves.all < halves.last && !present(loaded[k], c.epoch));
      if (missing && timeout.expired()) return false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kHalvesInFlight; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        store_half(halves.message + 8 * h, make_uint2(loaded[k].x, loaded[k].z),
                   valid_half_bytes(halves.bytes, h));
    }
  }
  return true;
}

__device__ inline bool ProtoLL::reduce_messages(const Collective& c, uint32_t sources,
                                                Collective::Message out, Range mine) {
  Timeout timeout(c.timeout_ns);
  const FirstStepTerms terms(c, RegionLayout::ll_stride(c.size));
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    const uint64_t g = mine.first + i;
    Vec16 result;
    if (!reduce(c, terms, sources, g, timeout, result)) return false;
    store_vec16(out.address + 16 * g, result, valid_bytes(out.bytes, g));
  }
  return true;
}

__device__ inline bool ProtoLL::reduce_part(const Collective& c, Range mine) {
  Timeout timeout(c.timeout_ns);
  const uint32_t size = c.size, flag = c.epoch, stride = RegionLayout::ll_stride(size);
  const FirstStepTerms terms(c, stride);
  const uint64_t step1_offset =
      RegionLayout::ll_packets(0, 1, c.rank, size);  // offset of the packets of this rank in every region
  for (uint64_t first = threadIdx.x & ~31u; first < mine.count; first += blockDim.x) {
    const uint64_t i = first + (threadIdx.x & 31), g = mine.first + i;
    const bool pending =
        i < mine.count && !(c.launch != 0 && arrived(c.regions[c.rank] + step1_offset + 32 * g, flag));
    Vec16 result{};
    const bool late = pending && !reduce(c, terms, c.sources, g, timeout, result);
    const WarpPackets packets(result, pending && !late);
    for (uint32_t d = 1; d <= size; ++d) {
      const uint32_t to = after(c, d);
      if (d == size || member(c.targets, to))
        packets.put(c.regions[to] + step1_offset + 32 * (mine.first + first), flag);
    }
    if (__any_sync(~0u, late)) return false;
  }
  return true;
}

}  // namespace weft::device::kernel
