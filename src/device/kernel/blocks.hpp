// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the kernel of blocks.cu and the emulated driver: exchanges of blocks of any
// layout, each a strided block or the runs of a table (pack.hpp).
#pragma once
#include <cstdint>

#include "device/kernel/direct.hpp"
#include "device/kernel/pack.hpp"

namespace weft::device::kernel {

/// A block of a message. The message is a stream: its blocks one after the other, each from a multiple of 16
/// bytes on.
struct Block {
  Layout layout;   ///< in words of `word` bytes, from the first word of the block on
  uint64_t first;  ///< byte of the message at which the block begins
  uint64_t bytes;  ///< packed
  uint32_t word;   ///< bytes of a word
};

/// Parameter of `weft_collective_blocks(Blocks)`: the form exchange of Collective with messages of blocks.
/// The addresses of `call.send` and `call.recv` are unused. Simple: blocks are packed into chunks in the
/// regions of the peers, which unpack them. direct: blocks are stored where they belong in the mapped buffers
/// of the peers, in chunks of `call.chunk_bytes`; `call.rounds` counts the chunks of the longest message.
struct Blocks {
  static constexpr uint32_t kMost = 24;
  Collective call;
  uint32_t direct;  ///< not 0: direct
  /// blocks[from[j]] to blocks[from[j + 1] - 1] are the message to rank j.
  uint8_t from[Collective::kRanks + 1];
  /// The same for `to`, with direct the destination of the message to rank j as mapped on this GPU, else the
  /// message from rank j. Blocks of a message to this rank itself, and with direct of all messages, have the
  /// same lengths and words on both sides.
  uint8_t to[Collective::kRanks + 1];
  Block blocks[kMost];
};
static_assert(sizeof(Blocks) <= 4096);

/// The words of a block in a range of its message.
struct WordRange {
  uint32_t first, count;
};
[[nodiscard]] WEFT_HOST_DEVICE inline WordRange words_in(const Block& block, const Range& bytes) {
  const uint64_t begin = bytes.first > block.first ? bytes.first - block.first : 0;
  const uint64_t past = bytes.first + bytes.count;
  const uint64_t end = past <= block.first                ? 0
                       : past - block.first < block.bytes ? past - block.first
                                                          : block.bytes;
  if (begin >= end) return {0, 0};
  return {static_cast<uint32_t>(begin / block.word), static_cast<uint32_t>((end - begin) / block.word)};
}

}  // namespace weft::device::kernel
