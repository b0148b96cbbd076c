// SPDX-License-Identifier: BSD-3-Clause
// The pack kernel: what host code, pack.cu and the emulated driver agree on, and where the words of a packed
// stream lie in memory. One kernel packs, unpacks and copies between layouts: both sides have one. C++17.
#pragma once
#include <cstdint>

#include "base/element/type.hpp"
#include "device/kernel/launch.hpp"

namespace weft::device::kernel {

#ifdef __CUDACC__
#define WEFT_PACK_INLINE __host__ __device__ __forceinline__
#else
#define WEFT_PACK_INLINE inline
#endif

/// Division by a number that is known before the launch, of any 32-bit number: Granlund and Montgomery,
/// Division by invariant integers using multiplication (1994).
struct Divisor {
  uint32_t divisor = 1, multiplier = 0, shift = 0;  ///< shift 0: divisor 1
  Divisor() = default;
  explicit Divisor(uint32_t by) : divisor(by) {
    while (shift < 32 && (uint64_t{1} << shift) < by) ++shift;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - by)) / by + 1);
  }
  WEFT_PACK_INLINE uint32_t quotient(uint32_t n) const {
    if (shift == 0) return n;
#ifdef __CUDA_ARCH__
    const uint32_t high = __umulhi(multiplier, n);
#else
    const auto high = static_cast<uint32_t>((uint64_t{multiplier} * n) >> 32);
#endif
    return (high + ((n - high) >> 1)) >> (shift - 1);
  }
};

/// Where the words of a packed stream lie: runs along up to three dimensions, or the runs of a table, once
/// for each element. Numbers count words of the stream, below 2^32; distances are bytes.
struct Layout {
  static constexpr int kDimensions = 3;
  uint64_t address;   ///< where displacements count from
  uint32_t first;     ///< the word of the stream that the launch begins with
  uint32_t segments;  ///< of the table; 0: there is none
  // Without a table: `run` words, repeated count[0] times stride[0] apart, that count[1] times, ...
  Divisor run;
  Divisor count[kDimensions - 1];
  int64_t stride[kDimensions];
  int32_t dimensions;
  // With a table: the run behind byte prefix[i] of an element lies at displacement[i]. Elements lie stride[0]
  // apart and have `run` words, less than 4 GiB.
  uint64_t prefix;        ///< const uint32_t[segments + 1]
  uint64_t displacement;  ///< const int64_t[segments]
};

/// Parameter of `weft_pack(Pack)`, and of `weft_pack_flat`, where both sides are flat.
struct Pack {
  static constexpr uint32_t kThreads = 256, kBatch = 4, kBlocks = 1056;
  static constexpr uint32_t kTile = 32 * kBatch;  ///< words that a warp has under way
  Layout dst, src;
  uint32_t words;  ///< to move
  uint32_t size;   ///< bytes of a word: 1, 2, 4, 8 or 16; all addresses are multiples of it
};

/// Parameter of `weft_pack_tiles(PackTiles)` and `weft_pack_tiles_flat`: the same in tiles of the stream,
/// each a chunk of a launch that can be taken back. A tile that is written can be told to a kernel on another
/// GPU, which waits for it: so packing there and unpacking here overlap. It waits for a while only, counted
/// from its block's start; then it leaves the tile out and says `missed`.
struct PackTiles : Launch {
  static constexpr uint32_t kThreads = 256;
  Pack pack;
  uint32_t tile;      ///< words
  uint32_t checked;   ///< 0: it cannot be taken back, and does not ask the host, which takes 3 us
  uint32_t patience;  ///< ns
  uint64_t signals;   ///< uint64_t[chunks]: each becomes `epoch` when its tile is written; 0: nobody waits
  uint64_t awaited;   ///< uint64_t[chunks]: the same, of whoever writes `src`; 0: all is there
  uint64_t epoch;
  uint32_t apart;    ///< words between those that are awaited; 0: one of them is for all tiles
  uint32_t touches;  ///< not 0: the places of a tile's words are fetched into the cache before it is awaited
};
static_assert(sizeof(PackTiles) <= 4096);

/// No table, and at most one dimension: most messages' sides. The kernels for these have a tenth of the code.
WEFT_PACK_INLINE bool is_flat(const Layout& layout) { return layout.segments == 0 && layout.dimensions <= 1; }

/// The segment of a table that holds byte `at` of an element, known to be in [low, high).
WEFT_PACK_INLINE uint32_t segment_of(const Layout& layout, uint32_t at, uint32_t low, uint32_t high) {
  const auto* const prefix = reinterpret_cast<const uint32_t*>(layout.prefix);
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (prefix[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// The segments that can hold the words of a tile.
struct SegmentRange {
  uint32_t low, high;
};

/// What all words of a tile [begin, end) share. Short tables, and tiles that span elements, are searched as a
/// whole.
WEFT_PACK_INLINE SegmentRange segments_of(const Layout& layout, uint32_t begin, uint32_t end, uint32_t size) {
  SegmentRange range{0, layout.segments};
  if (layout.segments <= 8) return range;
  const uint32_t from = layout.first + begin, to = layout.first + end - 1;
  const uint32_t element = layout.run.quotient(from);
  if (layout.run.quotient(to) != element) return range;
  range.low = segment_of(layout, (from - element * layout.run.divisor) * size, 0, layout.segments);
  range.high = segment_of(layout, (to - element * layout.run.divisor) * size, range.low, layout.segments) + 1;
  return range;
}

/// The address of word `index` of the launch, in a flat layout.
WEFT_PACK_INLINE uint64_t locate_flat(const Layout& layout, uint32_t index, uint32_t size) {
  const uint32_t word = layout.first + index, run = layout.run.quotient(word);
  return layout.address + static_cast<uint64_t>(layout.stride[0] * static_cast<int64_t>(run)) +
         uint64_t{word - run * layout.run.divisor} * size;
}

/// The address of word `index` of the launch.
WEFT_PACK_INLINE uint64_t locate(const Layout& layout, uint32_t index, uint32_t size, SegmentRange range) {
  uint32_t run = layout.run.quotient(layout.first + index);
  const uint32_t at = layout.first + index - run * layout.run.divisor;
  uint64_t address = layout.address;
  if (layout.segments != 0) {
    const uint32_t segment = segment_of(layout, at * size, range.low, range.high);
    address += static_cast<uint64_t>(layout.stride[0] * static_cast<int64_t>(run));
    address += static_cast<uint64_t>(reinterpret_cast<const int64_t*>(layout.displacement)[segment]);
    return address + (at * size - reinterpret_cast<const uint32_t*>(layout.prefix)[segment]);
  }
  address += uint64_t{at} * size;
  for (int32_t i = 0; i < layout.dimensions; ++i) {
    uint32_t here = run;
    if (i + 1 < layout.dimensions) {
      run = layout.count[i].quotient(here);
      here -= run * layout.count[i].divisor;
    }
    address += static_cast<uint64_t>(layout.stride[i] * static_cast<int64_t>(here));
  }
  return address;
}

}  // namespace weft::device::kernel
