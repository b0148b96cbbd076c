// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, pack.cu and the emulated driver: pack kernel parameters, and the location of
// packed words in memory. One kernel packs, unpacks and copies between layouts, as both sides have one.
// C++17.
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

/// Division of any 32-bit number by a number known before the launch: Granlund and Montgomery, Division by
/// invariant integers using multiplication (1994).
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

/// Memory layout of the words of a packed stream: runs along up to three dimensions, or the runs of a table,
/// repeated for each element. Positions count words of the stream, below 2^32; strides and displacements are
/// bytes.
struct Layout {
  static constexpr int kDimensions = 3;
  uint64_t address;   ///< origin of displacements
  uint32_t first;     ///< first word of the stream that the launch moves
  uint32_t segments;  ///< of the table; 0: no table
  // Without a table: runs of `run` words; count[0] of them stride[0] apart, count[1] such groups stride[1]
  // apart, ...
  Divisor run;
  Divisor count[kDimensions - 1];
  int64_t stride[kDimensions];
  int32_t dimensions;
  // With a table: the run at byte prefix[i] of a packed element starts at displacement[i]. Elements lie
  // stride[0] apart and have `run` words, less than 4 GiB.
  uint64_t prefix;        ///< const uint32_t[segments + 1]
  uint64_t displacement;  ///< const int64_t[segments]
};

/// Parameter of `weft_pack(Pack)`, and of `weft_pack_flat` if both layouts are flat.
struct Pack {
  static constexpr uint32_t kThreads = 256, kBatch = 4, kBlocks = 1056;
  static constexpr uint32_t kTile = 32 * kBatch;  ///< words that a warp has in flight
  Layout dst, src;
  uint32_t words;  ///< to move
  uint32_t size;   ///< bytes of a word: 1, 2, 4, 8 or 16; all addresses are multiples of it
};

/// Parameter of `weft_pack_tiles(PackTiles)` and `weft_pack_tiles_flat`: like Pack, in tiles of the stream,
/// each a chunk of a cancellable launch. Written tiles can be signalled to a kernel on another GPU that waits
/// for them, so packing there and unpacking here overlap. The waiting kernel times out per block; it then
/// skips the tile and sets `timed_out`.
struct PackTiles : CancellableLaunch {
  static constexpr uint32_t kThreads = 256;
  Pack pack;
  uint32_t tile_words;   ///< words
  uint32_t cancellable;  ///< 0: not cancellable, which saves 3 us of host communication
  uint32_t timeout_ns;   ///< longest wait of a block
  uint64_t signals;      ///< uint64_t[chunks]: set to `epoch` when the tile is written; 0: not signalled
  uint64_t wait_flags;   ///< uint64_t[chunks]: signalled by the writer of `src`; 0: no wait
  uint64_t epoch;
  uint32_t flag_stride;  ///< words between two wait flags; 0: one flag for all tiles
  uint32_t prefetch;     ///< not 0: prefetch the destination of a tile into L2 before waiting for it
};
static_assert(sizeof(PackTiles) <= 4096);

/// Returns whether a layout has no table and at most one dimension, as most messages do. The kernels for flat
/// layouts have a tenth of the code.
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

/// The segment range common to all words of a tile [begin, end). Short tables, and tiles that span elements,
/// get the whole table.
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
