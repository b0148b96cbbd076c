// SPDX-License-Identifier: BSD-3-Clause
// The pack kernels move words of a packed stream. One does it warp by warp; the other can be taken back,
// works by tiles, and its blocks tell those of another GPU what is there.
#include "device/kernel/launch_device.cuh"
#include "device/kernel/pack.hpp"

namespace weft::device::kernel {
namespace {

/// The address of a word; flat: of a flat layout.
template <bool kFlat>
__device__ __forceinline__ uint64_t place(const Layout& layout, uint32_t index, uint32_t size,
                                          SegmentRange range) {
  if constexpr (kFlat)
    return locate_flat(layout, index, size);
  else
    return locate(layout, index, size, range);
}

/// Words index(0), index(1), ... below `end` of a stretch that begins with `begin`: all are read before the
/// first is written.
template <class Word, bool kFlat, class Index>
__device__ __forceinline__ void move(const Pack& p, uint32_t begin, uint32_t end, Index&& index) {
  constexpr uint32_t kBatch = Pack::kBatch;
  SegmentRange from{}, to{};
  if constexpr (!kFlat) {
    from = segments_of(p.src, begin, end, sizeof(Word));
    to = segments_of(p.dst, begin, end, sizeof(Word));
  }
  Word words[kBatch];
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i)
    if (index(i) < end)
      words[i] = __ldcg(reinterpret_cast<const Word*>(place<kFlat>(p.src, index(i), sizeof(Word), from)));
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i)
    if (index(i) < end) *reinterpret_cast<Word*>(place<kFlat>(p.dst, index(i), sizeof(Word), to)) = words[i];
}

/// All words, the warps of the launch in turn.
template <class Word, bool kFlat>
__device__ __forceinline__ void move_all(const Pack& p) {
  constexpr uint32_t kTile = Pack::kTile;
  const uint32_t lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x / 32);
  for (uint64_t tile = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * kTile; tile < p.words;
       tile += uint64_t{warps} * kTile) {
    const auto begin = static_cast<uint32_t>(tile);
    move<Word, kFlat>(p, begin, p.words - begin < kTile ? p.words : begin + kTile,
                      [=](uint32_t i) { return begin + i * 32 + lane; });
  }
}

/// The words [first, last), by the threads of a block.
template <class Word, bool kFlat>
__device__ __forceinline__ void move_tile(const Pack& p, uint32_t first, uint32_t last) {
  const uint32_t step = blockDim.x * Pack::kBatch;
  for (uint64_t at = first; at < last; at += step) {
    const auto begin = static_cast<uint32_t>(at);
    move<Word, kFlat>(p, begin, last - begin < step ? last : begin + step,
                      [=](uint32_t i) { return begin + i * blockDim.x + threadIdx.x; });
  }
}

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__device__ __forceinline__ uint32_t end_of(const PackTiles& p, uint32_t tile) {
  const uint32_t first = tile * p.tile, rest = p.pack.words - first;
  return rest < p.tile ? p.pack.words : first + p.tile;
}

/// Fetches the places of the tile's words into the second-level cache. Their layout has no table.
template <bool kFlat>
__device__ __forceinline__ void touch_tile(const PackTiles& p, uint32_t tile) {
  const uint32_t last = end_of(p, tile);
  for (uint32_t at = tile * p.tile + threadIdx.x; at < last; at += blockDim.x)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place<kFlat>(p.pack.dst, at, p.pack.size, SegmentRange{})));
}

template <bool kFlat>
__device__ __forceinline__ void move_tile(const PackTiles& p, uint32_t tile) {
  const uint32_t first = tile * p.tile, last = end_of(p, tile);
  switch (p.pack.size) {
    case 16:
      return move_tile<uint4, kFlat>(p.pack, first, last);
    case 8:
      return move_tile<uint2, kFlat>(p.pack, first, last);
    case 4:
      return move_tile<uint32_t, kFlat>(p.pack, first, last);
    case 2:
      return move_tile<uint16_t, kFlat>(p.pack, first, last);
    default:
      return move_tile<uint8_t, kFlat>(p.pack, first, last);
  }
}

/// Thread 0: whether the tile is there, waited for until `deadline`.
__device__ bool is_there(const PackTiles& p, uint32_t tile, uint64_t deadline) {
  constexpr uint32_t kLooks = 8;  // between two at the clock, which takes about as long
  const auto* const flag = reinterpret_cast<const uint64_t*>(p.awaited) + tile * p.apart;
  for (uint32_t looks = 1;; ++looks) {
    uint64_t seen;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(flag) : "memory");
    if (seen == p.epoch) return true;
    if (looks % kLooks == 0 && nanoseconds() > deadline) return false;
  }
}

/// Thread 0: the tile is written.
__device__ void tell(const PackTiles& p, uint32_t tile) {
  fence_system();
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(reinterpret_cast<uint64_t*>(p.signals) + tile),
               "l"(p.epoch)
               : "memory");
}

template <bool kFlat>
__device__ __forceinline__ void move_all(const Pack& p) {
  switch (p.size) {
    case 16:
      return move_all<uint4, kFlat>(p);
    case 8:
      return move_all<uint2, kFlat>(p);
    case 4:
      return move_all<uint32_t, kFlat>(p);
    case 2:
      return move_all<uint16_t, kFlat>(p);
    default:
      return move_all<uint8_t, kFlat>(p);
  }
}

/// Thread 0: a tile was not there in time.
__device__ __forceinline__ void miss(const PackTiles& p) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&reinterpret_cast<Launch::Line*>(p.line)->missed),
               "r"(p.number)
               : "memory");
}

/// Tiles are dealt where the launch can be taken back, since a block may find no place; else a block takes
/// each gridDim.x'th, which saves a way to memory.
template <bool kFlat>
__device__ __forceinline__ void move_tiles(const PackTiles& p) {
  __shared__ uint32_t dealt[2], there;
  Launch::Words& words = words_of(p);
  const bool deals = p.checked != 0;
  const uint64_t deadline = p.awaited != 0 ? nanoseconds() + p.patience : 0;
  if (deals) {
    if (threadIdx.x == 0) dealt[0] = first_chunk(p);
    __syncthreads();
  } else {
    enter_unchecked(p);
  }
  uint32_t done = 0;
  for (uint32_t mine = deals ? dealt[0] : blockIdx.x; mine < p.chunks; ++done) {
    uint32_t upcoming = mine + gridDim.x;
    if (deals && threadIdx.x == 0) upcoming = atomicAdd(&words.next, 1);  // early: its way overlaps the work
    if (p.awaited != 0) {
      if (p.touches != 0) touch_tile<kFlat>(p, mine);
      if (threadIdx.x == 0) there = is_there(p, mine, deadline);
      __syncthreads();
      if (there == 0 && threadIdx.x == 0) miss(p);
    }
    if (p.awaited == 0 || there != 0) move_tile<kFlat>(p, mine);
    if (deals && threadIdx.x == 0) dealt[~done & 1] = upcoming;
    __syncthreads();
    if (p.signals != 0 && threadIdx.x == 0) tell(p, mine);
    mine = deals ? dealt[~done & 1] : upcoming;
  }
  if (threadIdx.x == 0 && done != 0) account(p, words, done);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(Pack::kThreads, 6) weft_pack(const __grid_constant__ Pack p) {
  move_all<false>(p);
}

extern "C" __global__ void __launch_bounds__(Pack::kThreads, 6)
    weft_pack_flat(const __grid_constant__ Pack p) {
  move_all<true>(p);
}

extern "C" __global__ void __launch_bounds__(PackTiles::kThreads, 5)
    weft_pack_tiles(const __grid_constant__ PackTiles p) {
  move_tiles<false>(p);
}

extern "C" __global__ void __launch_bounds__(PackTiles::kThreads, 4)
    weft_pack_tiles_flat(const __grid_constant__ PackTiles p) {
  move_tiles<true>(p);
}

}  // namespace weft::device::kernel
