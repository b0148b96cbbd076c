// SPDX-License-Identifier: BSD-3-Clause
// Pack kernels move the words of a packed stream. weft_pack works warp by warp. weft_pack_tiles works by
// tiles: it is cancellable, and its blocks signal written tiles to a kernel on another GPU.
#include "device/kernel/launch_device.cuh"
#include "device/kernel/pack.hpp"

namespace weft::device::kernel {
namespace {

/// The address of a word; kFlat: the layout is flat.
template <bool kFlat>
__device__ __forceinline__ uint64_t address_of(const Layout& layout, uint32_t index, uint32_t size,
                                               SegmentRange range) {
  if constexpr (kFlat)
    return locate_flat(layout, index, size);
  else
    return locate(layout, index, size, range);
}

/// Moves words index(0), index(1), ... of [begin, end); all loads precede the first store.
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
      words[i] =
          __ldcg(reinterpret_cast<const Word*>(address_of<kFlat>(p.src, index(i), sizeof(Word), from)));
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i)
    if (index(i) < end)
      *reinterpret_cast<Word*>(address_of<kFlat>(p.dst, index(i), sizeof(Word), to)) = words[i];
}

/// Moves all words, tile by tile, round robin over the warps of the launch.
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

/// Moves the words [first, last) with the threads of a block.
template <class Word, bool kFlat>
__device__ __forceinline__ void move_tile(const Pack& p, uint32_t first, uint32_t last) {
  const uint32_t step = blockDim.x * Pack::kBatch;
  for (uint64_t at = first; at < last; at += step) {
    const auto begin = static_cast<uint32_t>(at);
    move<Word, kFlat>(p, begin, last - begin < step ? last : begin + step,
                      [=](uint32_t i) { return begin + i * blockDim.x + threadIdx.x; });
  }
}

__device__ __forceinline__ uint32_t end_of(const PackTiles& p, uint32_t tile) {
  const uint32_t first = tile * p.tile_words, rest = p.pack.words - first;
  return rest < p.tile_words ? p.pack.words : first + p.tile_words;
}

/// Prefetches the destination words of a tile into the L2 cache. The layout has no table.
template <bool kFlat>
__device__ __forceinline__ void prefetch_tile(const PackTiles& p, uint32_t tile) {
  const uint32_t last = end_of(p, tile);
  for (uint32_t at = tile * p.tile_words + threadIdx.x; at < last; at += blockDim.x)
    asm volatile(
        "prefetch.global.L2 [%0];" ::"l"(address_of<kFlat>(p.pack.dst, at, p.pack.size, SegmentRange{})));
}

template <bool kFlat>
__device__ __forceinline__ void move_tile(const PackTiles& p, uint32_t tile) {
  const uint32_t first = tile * p.tile_words, last = end_of(p, tile);
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

/// Thread 0: waits for a tile until `deadline`. Returns whether the tile is ready.
__device__ bool wait_for_tile(const PackTiles& p, uint32_t tile, uint64_t deadline) {
  constexpr uint32_t kPollsPerClockRead = 8;  // polls between two clock reads, which take about as long
  const auto* const flag = reinterpret_cast<const uint64_t*>(p.wait_flags) + tile * p.flag_stride;
  for (uint32_t polls = 1;; ++polls) {
    uint64_t seen;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(flag) : "memory");
    if (seen == p.epoch) return true;
    if (polls % kPollsPerClockRead == 0 && nanoseconds() > deadline) return false;
  }
}

/// Thread 0: signals a written tile.
__device__ void signal_tile(const PackTiles& p, uint32_t tile) {
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

/// Thread 0: reports a tile that timed out.
__device__ __forceinline__ void report_timeout(const PackTiles& p) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(
                   &reinterpret_cast<CancellableLaunch::HostState*>(p.host_state)->timed_out),
               "r"(p.number)
               : "memory");
}

/// Cancellable launches take tiles with an atomic counter, since a block may not be scheduled. Other launches
/// assign every gridDim.x-th tile to a block, which saves a round trip to memory.
template <bool kFlat>
__device__ __forceinline__ void move_tiles(const PackTiles& p) {
  __shared__ uint32_t dealt[2], ready;
  CancellableLaunch::Words& words = words_of(p);
  const bool dynamic = p.cancellable != 0;
  const uint64_t deadline = p.wait_flags != 0 ? nanoseconds() + p.timeout_ns : 0;
  if (dynamic) {
    if (threadIdx.x == 0) dealt[0] = first_chunk(p);
    __syncthreads();
  } else {
    enter_unchecked(p);
  }
  uint32_t done = 0;
  for (uint32_t mine = dynamic ? dealt[0] : blockIdx.x; mine < p.chunks; ++done) {
    uint32_t upcoming = mine + gridDim.x;
    if (dynamic && threadIdx.x == 0)
      upcoming = atomicAdd(&words.next, 1);  // early: the atomic overlaps the copy
    if (p.wait_flags != 0) {
      if (p.prefetch != 0) prefetch_tile<kFlat>(p, mine);
      if (threadIdx.x == 0) ready = wait_for_tile(p, mine, deadline);
      __syncthreads();
      if (ready == 0 && threadIdx.x == 0) report_timeout(p);
    }
    if (p.wait_flags == 0 || ready != 0) move_tile<kFlat>(p, mine);
    if (dynamic && threadIdx.x == 0) dealt[~done & 1] = upcoming;
    __syncthreads();
    if (p.signals != 0 && threadIdx.x == 0) signal_tile(p, mine);
    mine = dynamic ? dealt[~done & 1] : upcoming;
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
