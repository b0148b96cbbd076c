// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by packets: one block's part of a call.
#pragma once
#include "device/kernel/collective.hpp"

namespace weft::device::kernel {

__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// How long a thread has waited. Reads the clock now and then only.
class Waiter {
 public:
  __device__ explicit Waiter(uint64_t patience) : patience_(patience) {}
  __device__ bool over() {
    if (++looks_ % 64 != 0) return false;
    const uint64_t now = global_nanoseconds();
    if (since_ == 0) since_ = now;
    return now - since_ > patience_;
  }

 private:
  uint64_t patience_, since_ = 0;
  uint32_t looks_ = 0;
};

__device__ __forceinline__ Granule granule_of(uint4 words) { return {{words.x, words.y, words.z, words.w}}; }
__device__ __forceinline__ uint4 words_of(const Granule& g) {
  return make_uint4(g.words[0], g.words[1], g.words[2], g.words[3]);
}

/// Up to 16 bytes at any address, zero behind them. Fresh: the first-level cache is passed by.
__device__ __forceinline__ Granule load_granule(uint64_t from, uint32_t bytes) {
  if (bytes == 16 && (from & 15) == 0) return granule_of(__ldcv(reinterpret_cast<const uint4*>(from)));
  Granule g{};
  if (((from | bytes) & 3) == 0) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if (4 * i < bytes) g.words[i] = __ldcv(reinterpret_cast<const uint32_t*>(from) + i);
    return g;
  }
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    if (i < bytes)
      g.words[i / 4] |= static_cast<uint32_t>(__ldcv(reinterpret_cast<const unsigned char*>(from) + i))
                        << 8 * (i % 4);
  return g;
}

__device__ __forceinline__ void store_granule(uint64_t to, const Granule& g, uint32_t bytes) {
  if (bytes == 16 && (to & 15) == 0) {
    *reinterpret_cast<uint4*>(to) = words_of(g);
  } else if (((to | bytes) & 3) == 0) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if (4 * i < bytes) reinterpret_cast<uint32_t*>(to)[i] = g.words[i];
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i)
      if (i < bytes)
        reinterpret_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(g.words[i / 4] >> 8 * (i % 4));
  }
}

/// Bytes of granule g of a message.
__device__ __forceinline__ uint32_t valid(uint64_t bytes, uint64_t g) {
  const uint64_t rest = bytes - 16 * g;
  return rest < 16 ? static_cast<uint32_t>(rest) : 16;
}

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

__device__ __forceinline__ uint4 load_packet(uint64_t at) {
  uint4 p;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w)
               : "l"(at)
               : "memory");
  return p;
}
__device__ __forceinline__ void store_packet(uint64_t at, uint32_t low, uint32_t high, uint32_t flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(low), "r"(flag), "r"(high),
               "r"(flag)
               : "memory");
}
__device__ __forceinline__ bool present(const uint4& p, uint32_t flag) { return p.y == flag && p.w == flag; }
__device__ __forceinline__ bool arrived(uint64_t granule, uint32_t flag) {
  return present(load_packet(granule), flag) && present(load_packet(granule + 16), flag);
}

/// What a group of threads has of a message: halves `first` to `last` of it, of which `self` of `all` takes
/// every `all`th. Half h travels as packet h - skipped.
struct Halves {
  uint64_t message, bytes, skipped;
  uint32_t first, last, self, all;
  __device__ Halves(Collective::Message whole, uint64_t granules_before, Range mine, uint32_t thread,
                    uint32_t threads)
      : message(whole.address),
        bytes(whole.bytes),
        skipped(2 * granules_before),
        first(static_cast<uint32_t>(2 * mine.first)),
        last(static_cast<uint32_t>(2 * (mine.first + mine.count))),
        self(thread),
        all(threads) {}
};

/// They go out as packets, so many of a thread at once.
template <uint32_t kAhead>
__device__ __forceinline__ void push(uint64_t packets, const Halves& halves, uint32_t flag) {
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kAhead * halves.all) {
    uint2 loaded[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        loaded[k] = load_half(halves.message + 8 * h, valid_half(halves.bytes, h));
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k)
      if (const uint32_t at = i + k * halves.all; at < halves.last)
        store_packet(packets + 16ull * at, loaded[k].x, loaded[k].y, flag);
  }
}

/// They are awaited and stored; false: in vain.
template <uint32_t kAhead>
__device__ __forceinline__ bool take(uint64_t packets, const Halves& halves, uint32_t flag, Waiter& waiter) {
  for (uint32_t i = halves.first + halves.self; i < halves.last; i += kAhead * halves.all) {
    uint4 loaded[kAhead];
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
        if (const uint32_t at = i + k * halves.all; at < halves.last)
          loaded[k] = load_packet(packets + 16ull * at);
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k)
        missing = missing || (i + k * halves.all < halves.last && !present(loaded[k], flag));
      if (missing && waiter.over()) return false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      const uint64_t h = halves.skipped + i + k * halves.all;
      if (i + k * halves.all < halves.last)
        store_half(halves.message + 8 * h, make_uint2(loaded[k].x, loaded[k].z), valid_half(halves.bytes, h));
    }
  }
  return true;
}

constexpr uint32_t kHalvesAhead = 4;  // of a thread: a launch has about as many threads as granules

/// Terms of a granule that have come, combined in rank order: those of the ranks of a set, `stride` bytes
/// apart.
__device__ __noinline__ inline Granule combined(Reduction reduction, uint32_t ranks, uint64_t packets,
                                                uint32_t stride) {
  const auto next = [&] {
    const uint64_t at = packets + static_cast<uint64_t>(__ffs(ranks) - 1) * stride;
    ranks &= ranks - 1;
    uint4 a, b;
    asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                 : "l"(at)
                 : "memory");
    asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                 : "l"(at + 16)
                 : "memory");
    return Granule{{a.x, a.z, b.x, b.z}};
  };
  const int count = __popc(ranks);
  return count == 1 ? next() : fold(reduction, count, [&](int) { return next(); });
}

/// Sums of floats, which have code of their own, term by term.
class FloatSum {
 public:
  __device__ __forceinline__ void add(const uint4& low, const uint4& high) {
    const uint32_t words[4] = {low.x, low.z, high.x, high.z};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float term = __uint_as_float(words[i]);
      sum_[i] = begun_ ? sum_[i] + term : term;
    }
    begun_ = true;
  }
  __device__ __forceinline__ Granule get() const {
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  float sum_[4] = {};
  bool begun_ = false;
};

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
        low[i] = load_packet(at);
        high[i] = load_packet(at + 16);
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
  result = sums ? sum.get() : combined(c.reduction, ranks, first, all.stride);
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

/// The threads of a block dealt to the ranks.
struct Deal {
  uint32_t peer, self, all;
  __device__ explicit Deal(uint32_t size) {
    all = blockDim.x / size;
    if (all >= 32) all = all / 32 * 32;
    peer = threadIdx.x / all;
    self = threadIdx.x % all;
  }
};

/// The rank that is d further, in a circle; d is the communicator's size at most.
__device__ __forceinline__ uint32_t after(const Collective& c, uint32_t d) {
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return;
  const uint32_t to = after(c, 1 + deal.peer);  // this rank last
  const Collective::Message message = c.send[to];
  const Range mine = share(granules(message.bytes), block, blocks);
  push<kHalvesAhead>(Area::packets(c.areas[to], 0, c.rank, c.size), {message, 0, mine, deal.self, deal.all},
                     c.epoch);
}

__device__ inline bool take_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return true;
  Waiter waiter(c.patience);
  const Collective::Message message = c.recv[deal.peer];
  const Range mine = share(granules(message.bytes), block, blocks);
  return take<kHalvesAhead>(Area::packets(c.areas[c.rank], 0, deal.peer, c.size),
                            {message, 0, mine, deal.self, deal.all}, c.epoch, waiter);
}

__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  Waiter waiter(c.patience);
  const Terms terms(c, Area::stride(c.size));
  const Range mine = share(granules(out.bytes), block, blocks);
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    const uint64_t g = mine.first + i;
    Granule result;
    if (!reduce(c, terms, sources, g, waiter, result)) return false;
    store_granule(out.address + 16 * g, result, valid(out.bytes, g));
  }
  return true;
}

__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = after(c, 1 + deal.peer);
  const Range whole = part(c, to), mine = share(whole.count, block, blocks);
  push<kHalvesAhead>(Area::packets(c.areas[to], 0, c.rank, c.size),
                     {c.send[0], whole.first, mine, deal.self, deal.all}, c.epoch);
}

/// Own part: combined, and given to all targets, to this rank last: what lies there has gone out before.
__device__ inline bool reduce_part(const Collective& c, uint32_t block, uint32_t blocks) {
  Waiter waiter(c.patience);
  const uint32_t size = c.size, flag = c.epoch, stride = Area::stride(size);
  const Terms terms(c, stride);
  const uint64_t behind = Area::packets(0, 1, c.rank, size);  // of this rank's packets, in every area
  const Range mine = share(part(c, c.rank).count, block, blocks);
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

__device__ inline bool take_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.targets, c.rank)) return true;
  Waiter waiter(c.patience);
  const Range whole = part(c, deal.peer), mine = share(whole.count, block, blocks);
  return take<kHalvesAhead>(Area::packets(c.areas[c.rank], 1, deal.peer, c.size),
                            {{c.recv[0].address, c.send[0].bytes}, whole.first, mine, deal.self, deal.all},
                            c.epoch, waiter);
}

/// One block's part of a call without parts; true: done, false: it has waited too long. A block writes where
/// only itself has read (buffers may be in place), so what it sends has to be read first.
__device__ inline bool run_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_messages(c, block, blocks);
    __syncthreads();
  }
  return c.form == Collective::exchange ? take_messages(c, block, blocks) : reduce_messages(c, block, blocks);
}

/// The same of a call in parts.
__device__ inline bool run_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_parts(c, block, blocks);
    __syncthreads();
  }
  const bool given = reduce_part(c, block, blocks);
  return take_parts(c, block, blocks) && given;
}

__device__ inline bool run_packets(const Collective& c, uint32_t block, uint32_t blocks) {
  return c.form == Collective::two_shot ? run_parts(c, block, blocks) : run_messages(c, block, blocks);
}

}  // namespace weft::device::kernel
