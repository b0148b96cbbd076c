// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by packets, and by lines: one block's part of a call.
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

/// What a group of threads, of which this is `self` of `all`, has of a message: granules of it, or of its
/// part that begins behind `skipped` of them.
struct Stretch {
  uint64_t message, bytes, skipped;
  Range mine;
  uint32_t self, all;
  __device__ Stretch(Collective::Message whole, uint64_t granules_before, Range share, const Deal& deal)
      : message(whole.address),
        bytes(whole.bytes),
        skipped(granules_before),
        mine(share),
        self(deal.self),
        all(deal.all) {}
};

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

/// They go out as packets, so many of a thread at once.
template <uint32_t kAhead>
__device__ __forceinline__ void push(uint64_t packets, const Stretch& stretch, uint32_t flag) {
  const Halves halves(stretch);
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
__device__ __forceinline__ bool take(uint64_t packets, const Stretch& stretch, uint32_t flag,
                                     Waiter& waiter) {
  const Halves halves(stretch);
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

/// From anywhere, also from shared memory.
__device__ __forceinline__ uint4 load_words(uint64_t at) {
  uint4 words;
  asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(at)
               : "memory");
  return words;
}

/// How a granule lies in an area.
enum class Lies : uint8_t { in_packets, in_line };

/// Terms of a granule that have come, combined in rank order: those of the ranks of a set, `stride` bytes
/// apart.
template <Lies how>
__device__ __noinline__ inline Granule combined(Reduction reduction, uint32_t ranks, uint64_t terms,
                                                uint32_t stride) {
  const auto next = [&] {
    const uint64_t at = terms + static_cast<uint64_t>(__ffs(ranks) - 1) * stride;
    ranks &= ranks - 1;
    const uint4 a = load_words(at);
    if constexpr (how == Lies::in_line) return granule_of(a);
    const uint4 b = load_words(at + 16);
    return Granule{{a.x, a.z, b.x, b.z}};
  };
  const int count = __popc(ranks);
  return count == 1 ? next() : fold(reduction, count, [&](int) { return next(); });
}

/// Sums of floats, which have code of their own, term by term.
class FloatSum {
 public:
  __device__ __forceinline__ void add(const Granule& granule) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float term = __uint_as_float(granule.words[i]);
      sum_[i] = begun_ ? sum_[i] + term : term;
    }
    begun_ = true;
  }
  __device__ __forceinline__ void add(const uint4& low, const uint4& high) {
    add(Granule{{low.x, low.z, high.x, high.z}});
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
  result = sums ? sum.get() : combined<Lies::in_packets>(c.reduction, ranks, first, all.stride);
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

/// The rank that is d further, in a circle; d is the communicator's size at most.
__device__ __forceinline__ uint32_t after(const Collective& c, uint32_t d) {
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

/// A wire: where a rank's data lie in an area, how blocks share them, and how they are pushed, taken and
/// combined.
struct ByPackets {
  __device__ static Range share(uint64_t total, uint32_t block, uint32_t blocks) {
    return kernel::share(total, block, blocks);
  }
  __device__ static uint64_t slots(uint64_t area, uint32_t step, uint32_t source, uint32_t size) {
    return Area::packets(area, step, source, size);
  }
  __device__ static void push(uint64_t slots, const Stretch& stretch, uint32_t flag) {
    kernel::push<kHalvesAhead>(slots, stretch, flag);
  }
  __device__ static bool take(uint64_t slots, const Stretch& stretch, const Collective& c) {
    Waiter waiter(c.patience);
    return kernel::take<kHalvesAhead>(slots, stretch, c.epoch, waiter);
  }
  /// Terms of all sources, combined into `out`.
  __device__ static bool reduce_messages(const Collective& c, uint32_t sources, Collective::Message out,
                                         Range mine);
  /// Own part: combined, and given to all targets, to this rank last: what lies there has gone out before.
  __device__ static bool reduce_part(const Collective& c, Range mine);
};

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

/// One instruction of a warp, for lines that are whole.
__device__ __forceinline__ void store_words(uint64_t at, const uint4& words) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

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
        if (lines.has(k)) loaded[k] = load_packet(slots + lines.at(k));
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
          loaded[i] = load_packet(first + static_cast<uint64_t>(from + i) * stride);
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
    result = combined<Lies::in_line>(c.reduction, ranks, first, stride);
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
          __ballot_sync(~0u, flag && load_packet(c.areas[c.rank] + behind + lines.at(0)).x == c.epoch);
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

template <class Wire>
__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return;
  const uint32_t to = after(c, 1 + deal.peer);  // this rank last
  const Collective::Message message = c.send[to];
  const Range mine = Wire::share(granules(message.bytes), block, blocks);
  Wire::push(Wire::slots(c.areas[to], 0, c.rank, c.size), {message, 0, mine, deal}, c.epoch);
}

template <class Wire>
__device__ inline bool take_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return true;
  const Collective::Message message = c.recv[deal.peer];
  const Range mine = Wire::share(granules(message.bytes), block, blocks);
  return Wire::take(Wire::slots(c.areas[c.rank], 0, deal.peer, c.size), {message, 0, mine, deal}, c);
}

template <class Wire>
__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  return Wire::reduce_messages(c, sources, out, Wire::share(granules(out.bytes), block, blocks));
}

template <class Wire>
__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = after(c, 1 + deal.peer);
  const Range whole = part(c, to), mine = Wire::share(whole.count, block, blocks);
  Wire::push(Wire::slots(c.areas[to], 0, c.rank, c.size), {c.send[0], whole.first, mine, deal}, c.epoch);
}

template <class Wire>
__device__ inline bool take_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.targets, c.rank)) return true;
  const Range whole = part(c, deal.peer), mine = Wire::share(whole.count, block, blocks);
  return Wire::take(Wire::slots(c.areas[c.rank], 1, deal.peer, c.size),
                    {{c.recv[0].address, c.send[0].bytes}, whole.first, mine, deal}, c);
}

/// One block's part of a call without parts; true: done, false: it has waited too long. A block writes where
/// only itself has read (buffers may be in place), so what it sends has to be read first.
template <class Wire>
__device__ inline bool run_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_messages<Wire>(c, block, blocks);
    __syncthreads();
  }
  return c.form == Collective::exchange ? take_messages<Wire>(c, block, blocks)
                                        : reduce_messages<Wire>(c, block, blocks);
}

/// The same of a call in parts.
template <class Wire>
__device__ inline bool run_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_parts<Wire>(c, block, blocks);
    __syncthreads();
  }
  const bool given = Wire::reduce_part(c, Wire::share(part(c, c.rank).count, block, blocks));
  return take_parts<Wire>(c, block, blocks) && given;
}

template <class Wire>
__device__ inline bool run(const Collective& c, uint32_t block, uint32_t blocks) {
  return c.form == Collective::two_shot ? run_parts<Wire>(c, block, blocks)
                                        : run_messages<Wire>(c, block, blocks);
}

}  // namespace weft::device::kernel
