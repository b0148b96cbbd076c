// SPDX-License-Identifier: BSD-3-Clause
// Device side of exchanges of blocks of any layout (blocks.hpp): one thread block's part of a call.
#pragma once
#include "device/kernel/blocks.hpp"
#include "device/kernel/direct_device.cuh"

namespace weft::device::kernel {

/// Words of a block from word `first` on, or contiguous words of a chunk in a region.
struct Words {
  const Layout* layout;  ///< null: contiguous
  uint64_t address;      ///< contiguous
  uint32_t first;
  SegmentRange segments;
  __device__ explicit Words(uint64_t chunk) : layout(nullptr), address(chunk), first(0), segments{0, 0} {}
  __device__ Words(const Block& block, const WordRange& words)
      : layout(&block.layout),
        address(0),
        first(words.first),
        segments(segments_of(block.layout, words.first, words.first + words.count, block.word)) {}
};
/// The same with a layout in registers: stores would make the compiler load it again.
struct LocalWords {
  Layout layout;
  const Words& words;
  __device__ explicit LocalWords(const Words& of) : words(of) {
    if (of.layout != nullptr) layout = *of.layout;
  }
  __device__ __forceinline__ uint64_t at(uint32_t i, uint32_t size) const {
    return words.layout == nullptr ? words.address + uint64_t{i} * size
                                   : locate(layout, words.first + i, size, words.segments);
  }
};

/// Thread `self` of `all` copies its share of `count` words, several at a time: all their loads precede the
/// first store. Out of line, since the code is long.
template <class Word>
static __device__ __noinline__ void copy_words(const Words to_words, const Words from_words, uint32_t count,
                                               uint32_t self, uint32_t all) {
  constexpr uint32_t kInFlight = 4;
  const LocalWords to(to_words), from(from_words);
  for (uint32_t first = self; first < count; first += kInFlight * all) {
    Word words[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
      if (first + k * all < count)
        words[k] = __ldcg(reinterpret_cast<const Word*>(from.at(first + k * all, sizeof(Word))));
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; ++k)
      if (first + k * all < count) *reinterpret_cast<Word*>(to.at(first + k * all, sizeof(Word))) = words[k];
  }
}

static __device__ __noinline__ void copy_by(uint32_t word, const Words to, const Words from, uint32_t count,
                                            uint32_t self, uint32_t all) {
  switch (word) {
    case 16:
      return copy_words<uint4>(to, from, count, self, all);
    case 8:
      return copy_words<uint2>(to, from, count, self, all);
    case 4:
      return copy_words<uint32_t>(to, from, count, self, all);
    case 2:
      return copy_words<uint16_t>(to, from, count, self, all);
    default:
      return copy_words<uint8_t>(to, from, count, self, all);
  }
}

/// Rounds of chunks through the regions. A round is received before the chunks of the round after the next
/// one are pushed (D1).
class PackedBlocks : public SimpleRounds {
 public:
  __device__ explicit PackedBlocks(const Blocks& blocks) : SimpleRounds(blocks.call), b_(blocks) {}
  /// Runs from a resume state. Returns the new resume state, or kEnded.
  __device__ uint64_t run(uint64_t resume, bool resumed) {
    if (!resumed && c_.rounds != 0) send(0);
    for (auto round = static_cast<uint32_t>(resume / 2); round < c_.rounds; ++round) {
      if (!wait(0, round)) return 2ull * round;
      receive(round);
      if (round + 1 < c_.rounds) send(round + 1);
    }
    return Collective::kEnded;
  }

 private:
  __device__ void send(uint32_t round) {
    for (uint32_t d = 1; d < c_.size; ++d) {
      const uint32_t to = after(d);
      const Range r = range(c_.send[to].bytes, round);
      for (uint32_t i = b_.from[to]; i < b_.from[to + 1]; ++i) {
        const Block& block = b_.blocks[i];
        const WordRange words = words_in(block, r);
        copy_by(block.word, chunk_words(block, words, r, slot(to, 0, round, c_.rank)), Words(block, words),
                words.count, threadIdx.x, blockDim.x);
      }
    }
    signal(0, round);
    const Range own = range(c_.send[c_.rank].bytes, round);
    for (uint32_t i = b_.from[c_.rank], to = b_.to[c_.rank]; i < b_.from[c_.rank + 1]; ++i, ++to) {
      const WordRange words = words_in(b_.blocks[i], own);
      copy_by(b_.blocks[i].word, Words(b_.blocks[to], words), Words(b_.blocks[i], words), words.count,
              threadIdx.x, blockDim.x);
    }
  }
  __device__ void receive(uint32_t round) {
    for (uint32_t d = 1; d < c_.size; ++d) {
      const uint32_t from = after(d);
      const Range r = range(c_.recv[from].bytes, round);
      for (uint32_t i = b_.to[from]; i < b_.to[from + 1]; ++i) {
        const Block& block = b_.blocks[i];
        const WordRange words = words_in(block, r);
        copy_by(block.word, Words(block, words), chunk_words(block, words, r, slot(c_.rank, 0, round, from)),
                words.count, threadIdx.x, blockDim.x);
      }
    }
  }
  /// The words of a block in the chunk at `slot` that holds range `r` of the message.
  __device__ static Words chunk_words(const Block& block, const WordRange& words, const Range& r,
                                      uint64_t slot) {
    return Words(slot + (block.first + uint64_t{words.first} * block.word - r.first));
  }

  const Blocks& b_;
};

/// Stores the chunks of this thread block to one rank after the other, starting at the next rank. A quarter
/// of the threads copies the own message meanwhile.
__device__ inline void store_blocks(const Blocks& b) {
  const Collective& c = b.call;
  const uint32_t local_threads = c.send[c.rank].bytes != 0 ? blockDim.x / 4 : 0;
  const bool local = threadIdx.x < local_threads;
  const uint32_t self = local ? threadIdx.x : threadIdx.x - local_threads;
  const uint32_t all = local ? local_threads : blockDim.x - local_threads;
  for (uint32_t d = local ? c.size : 1; d < (local ? c.size + 1 : c.size); ++d) {
    const uint32_t to = after(c, d);
    for (uint64_t chunk = blockIdx.x; chunk < c.rounds; chunk += gridDim.x) {
      const Range r = Direct::chunk(c, c.send[to].bytes, chunk);
      if (r.count == 0) break;
      for (uint32_t i = b.from[to], target = b.to[to]; i < b.from[to + 1]; ++i, ++target) {
        const WordRange words = words_in(b.blocks[i], r);
        if (words.count == 0) continue;
        copy_by(b.blocks[i].word, Words(b.blocks[target], words), Words(b.blocks[i], words), words.count,
                self, all);
      }
    }
  }
}

}  // namespace weft::device::kernel
