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
__device__ __forceinline__ void put(uint64_t packets, uint64_t g, const Granule& granule, uint32_t flag) {
  store_packet(packets + 32 * g, granule.words[0], granule.words[1], flag);
  store_packet(packets + 32 * g + 16, granule.words[2], granule.words[3], flag);
}
__device__ __forceinline__ bool present(const uint4& p, uint32_t flag) { return p.y == flag && p.w == flag; }
__device__ __forceinline__ bool arrived(uint64_t packets, uint64_t g, uint32_t flag) {
  return present(load_packet(packets + 32 * g), flag) && present(load_packet(packets + 32 * g + 16), flag);
}

/// Waits for one granule; false: in vain.
__device__ __forceinline__ bool take(uint64_t packets, uint64_t g, uint32_t flag, Waiter& waiter,
                                     Granule& granule) {
  for (;;) {
    const uint4 a = load_packet(packets + 32 * g), b = load_packet(packets + 32 * g + 16);
    if (present(a, flag) && present(b, flag)) {
      granule = {{a.x, a.z, b.x, b.z}};
      return true;
    }
    if (waiter.over()) return false;
  }
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

/// What the ranks of a set have sent of granule g in the first step, combined in rank order. Four are awaited
/// at a time.
__device__ __forceinline__ bool reduce(const Collective& c, uint32_t ranks, uint64_t g, Waiter& waiter,
                                       Granule& result) {
  constexpr uint32_t kBatch = 4;
  Terms terms(c.reduction);
  for (uint32_t from = 0; from < c.size; from += kBatch) {
    uint4 packets[2 * kBatch];
    for (;;) {
      bool all = true;
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (from + i >= c.size || !member(ranks, from + i)) continue;
        const uint64_t at = Area::packets(c.areas[c.rank], 0, from + i, c.size) + 32 * g;
        packets[2 * i] = load_packet(at);
        packets[2 * i + 1] = load_packet(at + 16);
      }
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i)
        if (from + i < c.size && member(ranks, from + i))
          all = all && present(packets[2 * i], c.epoch) && present(packets[2 * i + 1], c.epoch);
      if (all) break;
      if (waiter.over()) return false;
    }
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (from + i < c.size && member(ranks, from + i))
        terms.add({{packets[2 * i].x, packets[2 * i].z, packets[2 * i + 1].x, packets[2 * i + 1].z}});
  }
  result = terms.get();
  return true;
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

__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return;
  const uint32_t to = (c.rank + 1 + deal.peer) % c.size;
  const Collective::Message message = c.send[to];
  const uint64_t packets = Area::packets(c.areas[to], 0, c.rank, c.size);
  const Range mine = share(granules(message.bytes), block, blocks);
  for (uint64_t i = deal.self; i < mine.count; i += deal.all) {
    const uint64_t g = mine.first + i;
    put(packets, g, load_granule(message.address + 16 * g, valid(message.bytes, g)), c.epoch);
  }
}

__device__ inline bool take_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return true;
  Waiter waiter(c.patience);
  const Collective::Message message = c.recv[deal.peer];
  const uint64_t packets = Area::packets(c.areas[c.rank], 0, deal.peer, c.size);
  const Range mine = share(granules(message.bytes), block, blocks);
  for (uint64_t i = deal.self; i < mine.count; i += deal.all) {
    const uint64_t g = mine.first + i;
    Granule granule;
    if (!take(packets, g, c.epoch, waiter, granule)) return false;
    store_granule(message.address + 16 * g, granule, valid(message.bytes, g));
  }
  return true;
}

__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  Waiter waiter(c.patience);
  const Range mine = share(granules(out.bytes), block, blocks);
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    const uint64_t g = mine.first + i;
    Granule result;
    if (!reduce(c, sources, g, waiter, result)) return false;
    store_granule(out.address + 16 * g, result, valid(out.bytes, g));
  }
  return true;
}

__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = (c.rank + 1 + deal.peer) % c.size;
  const Range whole = part(c, to), mine = share(whole.count, block, blocks);
  const uint64_t packets = Area::packets(c.areas[to], 0, c.rank, c.size);
  for (uint64_t i = deal.self; i < mine.count; i += deal.all) {
    const uint64_t g = mine.first + i, at = whole.first + g;
    put(packets, g, load_granule(c.send[0].address + 16 * at, valid(c.send[0].bytes, at)), c.epoch);
  }
}

/// Own part: combined, and given to all targets, to this rank last: what lies there has gone out before.
__device__ inline bool reduce_part(const Collective& c, uint32_t block, uint32_t blocks) {
  Waiter waiter(c.patience);
  const Range mine = share(part(c, c.rank).count, block, blocks);
  const uint64_t own = Area::packets(c.areas[c.rank], 1, c.rank, c.size);
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    const uint64_t g = mine.first + i;
    if (c.launch != 0 && arrived(own, g, c.epoch)) continue;
    Granule result;
    if (!reduce(c, c.sources, g, waiter, result)) return false;
    for (uint32_t d = 1; d < c.size; ++d) {
      const uint32_t to = c.rank + d < c.size ? c.rank + d : c.rank + d - c.size;
      if (member(c.targets, to)) put(Area::packets(c.areas[to], 1, c.rank, c.size), g, result, c.epoch);
    }
    put(own, g, result, c.epoch);
  }
  return true;
}

__device__ inline bool take_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.targets, c.rank)) return true;
  Waiter waiter(c.patience);
  const Range whole = part(c, deal.peer), mine = share(whole.count, block, blocks);
  const uint64_t packets = Area::packets(c.areas[c.rank], 1, deal.peer, c.size);
  for (uint64_t i = deal.self; i < mine.count; i += deal.all) {
    const uint64_t g = mine.first + i, at = whole.first + g;
    Granule granule;
    if (!take(packets, g, c.epoch, waiter, granule)) return false;
    store_granule(c.recv[0].address + 16 * at, granule, valid(c.send[0].bytes, at));
  }
  return true;
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
  if (c.form == Collective::reduce) return reduce_messages(c, block, blocks);
  const bool given = reduce_part(c, block, blocks);
  return take_parts(c, block, blocks) && given;
}

/// What a copier keeps of the port that rang last; in shared memory.
struct Home {
  Collective call;
  uint32_t owner;  ///< port and version; 0: none
};

/// A call that came as a command, by one block. The host is told as by a launch.
__device__ inline void serve_call(uint64_t homes, const uint32_t* words, Home& home) {
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
  const bool late = __syncthreads_or(!run_packets(home.call, 0, 1));
  if (threadIdx.x != 0) return;
  __threadfence_system();
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(home.call.status),
               "l"(Collective::outcome(home.call.epoch, 0, late))
               : "memory");
}

}  // namespace weft::device::kernel
