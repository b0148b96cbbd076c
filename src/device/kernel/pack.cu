// SPDX-License-Identifier: BSD-3-Clause
// The pack kernel: each warp moves tiles of consecutive words of the packed stream.
#include "device/kernel/pack.hpp"

namespace weft::device::kernel {
namespace {

template <class Word>
__device__ __forceinline__ void move_tiles(const Pack& p) {
  constexpr uint32_t kBatch = Pack::kBatch, kTile = Pack::kTile;
  const uint32_t lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x / 32);
  for (uint64_t tile = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * kTile; tile < p.words;
       tile += uint64_t{warps} * kTile) {
    const auto begin = static_cast<uint32_t>(tile);
    const uint32_t end = p.words - begin < kTile ? p.words : begin + kTile;
    const SegmentRange from = segments_of(p.src, begin, end, sizeof(Word)),
                       to = segments_of(p.dst, begin, end, sizeof(Word));
    Word words[kBatch];
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (const uint32_t index = begin + i * 32 + lane; index < end)
        words[i] = __ldcg(reinterpret_cast<const Word*>(locate(p.src, index, sizeof(Word), from)));
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i)
      if (const uint32_t index = begin + i * 32 + lane; index < end)
        *reinterpret_cast<Word*>(locate(p.dst, index, sizeof(Word), to)) = words[i];
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(Pack::kThreads) weft_pack(const __grid_constant__ Pack p) {
  switch (p.size) {
    case 16:
      return move_tiles<uint4>(p);
    case 8:
      return move_tiles<uint2>(p);
    case 4:
      return move_tiles<uint32_t>(p);
    case 2:
      return move_tiles<uint16_t>(p);
    default:
      return move_tiles<uint8_t>(p);
  }
}

}  // namespace weft::device::kernel
