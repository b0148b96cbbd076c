// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the kernel of blocks.cu and the emulated driver: enqueued exchanges of blocks
// of any regular layout. The messages of other ranks are unknown, so each pair of ranks divides the messages
// between them by their sizes, which are arguments of both.
#pragma once
#include <cstdint>

#include "device/kernel/collective.hpp"
#include "device/kernel/enqueue.hpp"

namespace weft::device::kernel {

/// How the messages between two ranks, or of a rank to itself, are divided; equal on both.
struct PairSplit {
  uint32_t blocks;       ///< thread blocks on each rank; 0: no message
  uint32_t chunk_bytes;  ///< Simple: of a thread block in a round
  uint32_t rounds;       ///< Simple; 0: LL
};

/// Parameter of `weft_collective_stream_blocks(StreamBlocks)`. Thread blocks first_block[j] to
/// first_block[j + 1] - 1 handle the messages to and from rank j. The message to a rank is the packed stream
/// of its blocks, each from a multiple of 16 bytes on. Small messages go as LL packets, others by the Simple
/// protocol in chunks, in the regions of enqueued collectives. Call numbers and credits are those of
/// StreamControl; every rank acknowledges every such call.
struct StreamBlocks {
  static constexpr uint32_t kMost = 52;            ///< blocks: those of 26 neighbors
  static constexpr uint32_t kPairBlocks = 64;      ///< most thread blocks of a pair
  static constexpr uint32_t kAllBlocks = 128;      ///< most thread blocks of a launch
  static constexpr uint32_t kAlignment = 16;       ///< of a block in its message, bytes
  static constexpr uint64_t kLLBytes = 256 << 10;  ///< most bytes of an LL message

  uint64_t
      regions[Collective::kRanks];  ///< of all ranks, as mapped on this GPU, each behind its control page
  uint64_t cancel;                  ///< Collective::kCancelWord and the address of the word
  uint64_t beat;                    ///< StreamBeat
  uint32_t beat_id;
  uint32_t rank, size;
  uint32_t most_blocks;   ///< thread blocks of a pair, at most; equal on all ranks, like chunk_stride
  uint32_t chunk_stride;  ///< bytes between two chunks in a region
  /// Blocks from[j] to from[j + 1] - 1 are the message to rank j; the same for `to`, the message from rank j.
  uint8_t from[Collective::kRanks + 1], to[Collective::kRanks + 1];
  uint8_t first_block[Collective::kRanks + 1];
  uint8_t dimensions[kMost], word[kMost];  ///< of the layout of a block
  struct Block {
    uint64_t address;
    int64_t stride[enqueue::Runs::kDimensions];
    Divisor run;
    Divisor count[enqueue::Runs::kDimensions - 1];
    uint32_t words;
  };
  Block blocks[kMost];

  [[nodiscard]] WEFT_HOST_DEVICE enqueue::Runs runs(uint32_t i) const {
    const Block& block = blocks[i];
    return {{block.stride[0], block.stride[1], block.stride[2]},
            block.run,
            {block.count[0], block.count[1]},
            dimensions[i],
            word[i]};
  }
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t bytes(uint32_t i) const {
    return uint64_t{blocks[i].words} * word[i];
  }
  /// The byte of the message behind block i, which begins at `first`, where the next block begins.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t behind(uint64_t first, uint32_t i) const {
    return (first + bytes(i) + kAlignment - 1) / kAlignment * kAlignment;
  }
  /// Bytes of the message of blocks `begin` to `end` - 1.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t message_bytes(uint32_t begin, uint32_t end) const {
    uint64_t first = 0;
    for (uint32_t i = begin; i + 1 < end; ++i) first = behind(first, i);
    return begin == end ? 0 : first + bytes(end - 1);
  }
  [[nodiscard]] WEFT_HOST_DEVICE PairSplit split(uint32_t peer) const {
    const uint64_t sent = message_bytes(from[peer], from[peer + 1]);
    const uint64_t received = message_bytes(to[peer], to[peer + 1]);
    return split_of(sent > received ? sent : received);
  }
  /// `bytes`: of the longer of the two messages.
  [[nodiscard]] WEFT_HOST_DEVICE PairSplit split_of(uint64_t bytes) const {
    constexpr uint32_t kLLBlockBytes = 4096, kBlockBytes = 16384, kChunkAlignment = 128;
    const auto clamped = [this](uint64_t blocks) {
      return static_cast<uint32_t>(blocks < 1 ? 1 : blocks > most_blocks ? most_blocks : blocks);
    };
    if (bytes == 0) return {0, 0, 0};
    if (bytes <= kLLBytes && bytes <= StreamCollective::ll_capacity(size))
      return {clamped(bytes / kLLBlockBytes), 0, 0};
    const uint32_t n = clamped(bytes / kBlockBytes);
    const uint64_t wanted = ((bytes + n - 1) / n + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
    const auto chunk = static_cast<uint32_t>(wanted < chunk_stride ? wanted : chunk_stride);
    return {n, chunk, static_cast<uint32_t>((bytes + uint64_t{chunk} * n - 1) / (uint64_t{chunk} * n))};
  }
  /// The chunk of thread block `k` of a pair in a round: a range of a message of `bytes` bytes.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk(const PairSplit& split, uint64_t bytes, uint32_t round,
                                                    uint32_t k) {
    return within((uint64_t{round} * split.blocks + k) * split.chunk_bytes, split.chunk_bytes, bytes);
  }
  /// Address in the region of rank `owner` of the chunk from rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t slot(uint32_t owner, uint32_t source, uint32_t round,
                                               uint32_t k) const {
    const uint64_t index = ((round & 1) * uint64_t{most_blocks} + k) * (size - 1);
    return regions[owner] + RegionLayout::kClearedBytes +
           (index + (source < owner ? source : source - 1)) * chunk_stride;
  }
  /// Address in the region of rank `owner` of the flag of that chunk.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t flag(uint32_t owner, uint32_t source, uint32_t round,
                                               uint32_t k) const {
    return RegionLayout::flag(regions[owner], 0, round & 1, k, source);
  }
  /// The value of a flag in a round of call `number`; as mark().
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t mark(uint64_t number, uint32_t round) {
    return number << 24 | round;
  }
  /// Address in the region of rank `owner` of the LL packets from rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t packets(uint32_t owner, uint32_t source, uint64_t number) const {
    return RegionLayout::ll_packets(regions[owner] + StreamCollective::set_offset(size, number), 0, source,
                                    size);
  }
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t control(uint32_t of) const {
    return regions[of] - StreamControl::kSpace;
  }
  /// Protocols of the messages to and from other ranks.
  struct Protocols {
    bool ll, simple;
  };
  [[nodiscard]] WEFT_HOST_DEVICE Protocols protocols() const {
    Protocols used{false, false};
    for (uint32_t peer = 0; peer < size; ++peer) {
      if (peer == rank || first_block[peer] == first_block[peer + 1]) continue;
      const bool simple = split(peer).rounds != 0;
      used.ll = used.ll || !simple;
      used.simple = used.simple || simple;
    }
    return used;
  }
  /// The call that all ranks must have finished before call `number` may push.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t needed(const StreamControl& own, uint64_t number,
                                                        const Protocols& used) {
    const uint64_t ll = used.ll ? StreamCollective::needed(own, number, false) : 0;
    const uint64_t simple = used.simple ? StreamCollective::needed(own, number, true) : 0;
    return ll > simple ? ll : simple;
  }
};
static_assert(sizeof(StreamBlocks) <= 4096 && StreamBlocks::kAllBlocks < 256);

}  // namespace weft::device::kernel
