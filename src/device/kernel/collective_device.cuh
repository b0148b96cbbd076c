// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by packets: one block's part of a call. Used by the kernel of collective.cu.
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
/// Packets of rank `source` in a step, in the area of rank `owner`: Area::packets() without its division.
__device__ __forceinline__ uint64_t packets_of(const Collective& c, uint32_t owner, uint32_t step,
                                               uint32_t source) {
  return c.areas[owner] + step * Area::kPackets + static_cast<uint64_t>(source) * c.stride;
}

/// What a group of threads has of a message: halves `first` to `last` of it, of which `self` of `all` takes
/// every `all`th. Half h travels as packet h - skipped.
struct Halves {
  uint64_t message, bytes, skipped;
  uint32_t first, last, self, all;
  __device__ Halves(uint64_t address, uint64_t length, uint64_t granules_before, Range mine, uint32_t thread,
                    uint32_t threads)
      : message(address),
        bytes(length),
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

/// Few halves of a thread need no more than one at a time, which takes fewer instructions.
__device__ __forceinline__ void push(uint64_t packets, const Halves& halves, uint32_t flag) {
  if (halves.last - halves.first <= halves.all)
    push<1>(packets, halves, flag);
  else
    push<8>(packets, halves, flag);
}
__device__ __forceinline__ bool take(uint64_t packets, const Halves& halves, uint32_t flag, Waiter& waiter) {
  return halves.last - halves.first <= halves.all ? take<1>(packets, halves, flag, waiter)
                                                  : take<8>(packets, halves, flag, waiter);
}

/// Combines terms one by one, in the order in which they come: sums of floats at once, others at the end, by
/// what has code for every operation.
class Terms {
 public:
  __device__ explicit Terms(Reduction reduction)
      : reduction_(reduction),
        float_sum_(reduction.op == ReduceOp::sum && reduction.element == Element::float32) {}
  __device__ __forceinline__ void add(const Granule& term) {
    if (!float_sum_) {
      terms_[count_++] = term;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum_[i] = count_ == 0 ? __uint_as_float(term.words[i]) : sum_[i] + __uint_as_float(term.words[i]);
    ++count_;
  }
  __device__ __forceinline__ Granule get() const {
    if (!float_sum_) return count_ == 1 ? terms_[0] : combine_all(reduction_, count_, terms_);
    return {{__float_as_uint(sum_[0]), __float_as_uint(sum_[1]), __float_as_uint(sum_[2]),
             __float_as_uint(sum_[3])}};
  }

 private:
  static __device__ __noinline__ Granule combine_all(Reduction reduction, int count, const Granule* terms) {
    return kernel::fold(reduction, count, [=](int i) { return terms[i]; });
  }
  Reduction reduction_;
  bool float_sum_;
  int count_ = 0;
  float sum_[4];
  Granule terms_[Collective::kRanks];
};

/// What a thread combines at a time: so many packets of each rank, twice, `apart` packets from each other.
/// One packet is half a granule; elements of 16 bytes take both halves.
template <int kPackets>
struct Pair {
  static constexpr uint32_t kUnits = 2;
  uint32_t first, apart;
  bool two;  ///< else the first only
  __device__ __forceinline__ uint32_t at(uint32_t unit) const { return first + unit * apart; }
  __device__ __forceinline__ bool has(uint32_t unit) const { return unit == 0 || two; }
};

/// What the ranks of a set have sent in the first step, combined in rank order. Four are awaited at a time.
template <int kPackets>
__device__ __forceinline__ bool reduce(const Collective& c, uint32_t ranks, const Pair<kPackets>& pair,
                                       Waiter& waiter, Granule (&results)[2]) {
  constexpr uint32_t kBatch = 4, kUnits = Pair<kPackets>::kUnits;
  const uint32_t size = c.size, flag = c.epoch, stride = c.stride;
  uint64_t packets = packets_of(c, c.rank, 0, 0);
  Terms terms[kUnits] = {Terms(c.reduction), Terms(c.reduction)};
  for (uint32_t from = 0; from < size; from += kBatch, packets += uint64_t{kBatch} * stride) {
    uint4 loaded[kUnits][kBatch][kPackets];
    for (bool missing = true; missing;) {
      missing = false;
#pragma unroll
      for (uint32_t u = 0; u < kUnits; ++u)
#pragma unroll
        for (uint32_t i = 0; i < kBatch; ++i) {
          if (!pair.has(u) || from + i >= size || !member(ranks, from + i)) continue;
          const uint64_t at = packets + uint64_t{i} * stride + 16ull * pair.at(u);
#pragma unroll
          for (uint32_t k = 0; k < kPackets; ++k) loaded[u][i][k] = load_packet(at + 16 * k);
        }
#pragma unroll
      for (uint32_t u = 0; u < kUnits; ++u)
#pragma unroll
        for (uint32_t i = 0; i < kBatch; ++i)
          if (pair.has(u) && from + i < size && member(ranks, from + i))
#pragma unroll
            for (uint32_t k = 0; k < kPackets; ++k) missing = missing || !present(loaded[u][i][k], flag);
      if (missing && waiter.over()) return false;
    }
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (!pair.has(u) || from + i >= size || !member(ranks, from + i)) continue;
        const uint4 low = loaded[u][i][0], high = kPackets == 2 ? loaded[u][i][kPackets - 1] : uint4{};
        terms[u].add({{low.x, low.z, high.x, high.z}});
      }
  }
#pragma unroll
  for (uint32_t u = 0; u < kUnits; ++u)
    if (pair.has(u)) results[u] = terms[u].get();
  return true;
}

/// The packets of a range of granules that this thread has, by pairs: `each(pair)` until it says false.
template <int kPackets, class Each>
__device__ __forceinline__ bool for_pairs(Range mine, Each&& each) {
  const uint32_t first = static_cast<uint32_t>(2 * mine.first),
                 last = static_cast<uint32_t>(2 * (mine.first + mine.count)), apart = kPackets * blockDim.x;
  for (uint32_t at = first + kPackets * threadIdx.x; at < last; at += 2 * apart)
    if (!each(Pair<kPackets>{at, apart, at + apart < last})) return false;
  return true;
}

/// Elements of 16 bytes take both halves of a granule.
__device__ __forceinline__ bool wide(const Reduction& reduction) {
  return reduction.defined() && element_size(reduction.element) > 8;
}

/// Bits: the units of a pair that have not gone out yet. In a second launch this rank's own packets, which go
/// last, say so.
template <int kPackets>
__device__ __forceinline__ uint32_t pending(const Collective& c, uint64_t own, const Pair<kPackets>& pair) {
  uint32_t units = pair.two ? 3 : 1;
  if (c.launch == 0) return units;
  for (uint32_t u = 0; u < 2; ++u)
    if (pair.has(u) && present(load_packet(own + 16ull * (pair.at(u) + kPackets - 1)), c.epoch))
      units &= ~(1u << u);
  return units;
}

template <int kPackets>
__device__ __forceinline__ void store_unit(uint64_t message, uint64_t bytes, uint64_t h, const Granule& g) {
  store_half(message + 8 * h, make_uint2(g.words[0], g.words[1]), valid_half(bytes, h));
  if (kPackets == 2)
    store_half(message + 8 * h + 8, make_uint2(g.words[2], g.words[3]), valid_half(bytes, h + 1));
}
template <int kPackets>
__device__ __forceinline__ void put_unit(uint64_t at, const Granule& g, uint32_t flag) {
  store_packet(at, g.words[0], g.words[1], flag);
  if (kPackets == 2) store_packet(at + 16, g.words[2], g.words[3], flag);
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

__device__ __forceinline__ uint32_t after(const Collective& c, uint32_t d) {
  return c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
}

__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return;
  const uint32_t to = after(c, 1 + deal.peer);  // this rank last
  const Collective::Message message = c.send[to];
  const Range mine = share(granules(message.bytes), block, blocks);
  push(packets_of(c, to, 0, c.rank), {message.address, message.bytes, 0, mine, deal.self, deal.all}, c.epoch);
}

__device__ inline bool take_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return true;
  Waiter waiter(c.patience);
  const Collective::Message message = c.recv[deal.peer];
  const Range mine = share(granules(message.bytes), block, blocks);
  return take(packets_of(c, c.rank, 0, deal.peer),
              {message.address, message.bytes, 0, mine, deal.self, deal.all}, c.epoch, waiter);
}

template <int kPackets>
__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  Waiter waiter(c.patience);
  return for_pairs<kPackets>(share(granules(out.bytes), block, blocks), [&](const Pair<kPackets>& pair) {
    Granule results[2];
    if (!reduce(c, sources, pair, waiter, results)) return false;
#pragma unroll
    for (uint32_t u = 0; u < 2; ++u)
      if (pair.has(u)) store_unit<kPackets>(out.address, out.bytes, pair.at(u), results[u]);
    return true;
  });
}

__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = after(c, 1 + deal.peer);
  const Range whole = part(c, to), mine = share(whole.count, block, blocks);
  push(packets_of(c, to, 0, c.rank),
       {c.send[0].address, c.send[0].bytes, whole.first, mine, deal.self, deal.all}, c.epoch);
}

/// Own part: combined, and given to all targets, to this rank last: what lies there has gone out before.
template <int kPackets>
__device__ inline bool reduce_part(const Collective& c, uint32_t block, uint32_t blocks) {
  Waiter waiter(c.patience);
  const uint32_t size = c.size, rank = c.rank, targets = c.targets, flag = c.epoch;
  const uint64_t own = packets_of(c, rank, 1, rank);
  return for_pairs<kPackets>(share(part(c, rank).count, block, blocks), [&](const Pair<kPackets>& pair) {
    const uint32_t units = pending(c, own, pair);
    Granule results[2];
    if (units == 0) return true;
    if (!reduce(c, c.sources, pair, waiter, results)) return false;
    for (uint32_t d = 1; d <= size; ++d) {
      const uint32_t to = after(c, d);
      if (d != size && !member(targets, to)) continue;
      const uint64_t packets = packets_of(c, to, 1, rank);
#pragma unroll
      for (uint32_t u = 0; u < 2; ++u)
        if (member(units, u)) put_unit<kPackets>(packets + 16ull * pair.at(u), results[u], flag);
    }
    return true;
  });
}

__device__ inline bool take_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.targets, c.rank)) return true;
  Waiter waiter(c.patience);
  const Range whole = part(c, deal.peer), mine = share(whole.count, block, blocks);
  return take(packets_of(c, c.rank, 1, deal.peer),
              {c.recv[0].address, c.send[0].bytes, whole.first, mine, deal.self, deal.all}, c.epoch, waiter);
}

/// What follows the pushing.
template <int kPackets>
__device__ __forceinline__ bool finish_packets(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.form == Collective::reduce) return reduce_messages<kPackets>(c, block, blocks);
  const bool given = reduce_part<kPackets>(c, block, blocks);
  return take_parts(c, block, blocks) && given;
}

/// One block's part of a call; true: done, false: it has waited too long. A block writes where only itself
/// has read (buffers may be in place), so what it sends has to be read first.
__device__ inline bool run_packets(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    if (c.form == Collective::two_shot)
      push_parts(c, block, blocks);
    else
      push_messages(c, block, blocks);
    __syncthreads();
  }
  if (c.form == Collective::exchange) return take_messages(c, block, blocks);
  return wide(c.reduction) ? finish_packets<2>(c, block, blocks) : finish_packets<1>(c, block, blocks);
}

/// What a copier keeps of the port that rang last; in shared memory.
struct Home {
  Collective call;
  uint32_t owner;  ///< port and version; 0: none
};

/// One block's part of a call that came as a command; true: it has waited too long.
__device__ inline bool serve_call(uint64_t homes, const uint32_t* words, Home& home, uint32_t block,
                                  uint32_t blocks) {
  const CallWord word = CallWord::unpacked(words[6]);
  const uint32_t owner = 1u << 16 | word.port << 8 | word.version;
  if (home.owner != owner) {
    const auto* from = reinterpret_cast<const uint64_t*>(homes + word.port * sizeof(Collective));
    for (uint32_t i = threadIdx.x; i < sizeof(Collective) / 8; i += blockDim.x)
      reinterpret_cast<uint64_t*>(&home.call)[i] = __ldcv(from + i);
  }
  __syncthreads();
  if (threadIdx.x < home.call.size) {
    const auto address = [&](uint32_t low) {
      return static_cast<uint64_t>(words[low + 1]) << 32 | words[low];
    };
    Regular{word.shape, word.root, address(2), address(0), words[4], word.reduction}.messages(home.call,
                                                                                              threadIdx.x);
  }
  if (threadIdx.x == 0) {
    home.owner = owner;
    home.call.epoch = words[7];
    home.call.reduction = word.reduction;
  }
  __syncthreads();
  return __syncthreads_or(!run_packets(home.call, block, blocks));
}

/// One thread, behind a fence: the host is told as by a launch.
__device__ __forceinline__ void end_call(const Collective& c, bool late) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(c.status),
               "l"(Collective::outcome(c.epoch, 0, late))
               : "memory");
}

}  // namespace weft::device::kernel
