// SPDX-License-Identifier: BSD-3-Clause
// Exchanges of blocks of any layout on the emulated GPU, by the contract of device/kernel/blocks.hpp.
#include <cstring>
#include <vector>

#include "device/kernel/blocks.hpp"
#include "layout_side.hpp"
#include "simple_kernel.hpp"

namespace emucuda {
namespace {

class BlocksKernel final : public SimpleKernel {
 public:
  BlocksKernel(ContextObject& context, void** parameters) : SimpleKernel(context, parameters) {
    std::memcpy(&b_, parameters[0], sizeof b_);
    ++world().block_collectives;
    const uint32_t all = std::max(b_.from[c_.size], b_.to[c_.size]);
    for (uint32_t i = 0; i < all; ++i) sides_.emplace_back(context, b_.blocks[i].layout);
  }

 private:
  [[nodiscard]] uint64_t simple_bytes() const override {
    return b_.direct != 0 ? 0 : SimpleKernel::simple_bytes();
  }
  bool enter() override {
    for (LayoutSide& side : sides_)
      if (!side.map()) failed_ = true;
    return !failed_;
  }
  bool step() override {
    if (b_.direct == 0) return SimpleKernel::step();
    if (!stored_ && c_.launch == 0) {
      ++world().direct_collectives;
      // Only `rounds` chunks of each message: tests notice a missing chunk.
      for (uint32_t chunk = 0; chunk < c_.rounds; ++chunk)
        for (uint32_t to = 0; to < c_.size; ++to)
          move_blocks(to, Direct::chunk(c_, c_.send[to].bytes, chunk));
    }
    stored_ = true;
    return !failed_ && all_ranks_done();
  }
  bool save_state(bool over) override { return b_.direct != 0 || SimpleKernel::save_state(over); }

  void send(uint32_t block, uint32_t round) override {
    for (uint32_t to = 0; to < c_.size; ++to) {
      if (to == c_.rank) continue;
      const Range r = chunk_range(c_, c_.send[to].bytes, round, block, c_.blocks);
      char* const chunk = slot(to, 0, block, round, c_.rank);
      for (uint32_t i = b_.from[to]; i < b_.from[to + 1u]; ++i) copy_chunk(i, r, chunk, true);
    }
    signal(0, block, round);
    move_blocks(c_.rank, chunk_range(c_, c_.send[c_.rank].bytes, round, block, c_.blocks));
  }
  void receive(uint32_t block, uint32_t round) override {
    for (uint32_t from = 0; from < c_.size; ++from) {
      if (from == c_.rank) continue;
      const Range r = chunk_range(c_, c_.recv[from].bytes, round, block, c_.blocks);
      char* const chunk = slot(c_.rank, 0, block, round, from);
      for (uint32_t i = b_.to[from]; i < b_.to[from + 1u]; ++i) copy_chunk(i, r, chunk, false);
    }
  }

  /// Packs the part of a block that belongs to range `r` of its message into a chunk, or unpacks it.
  void copy_chunk(uint32_t index, const Range& r, char* chunk, bool packs) {
    const Block& block = b_.blocks[index];
    const WordRange words = words_in(block, r);
    char* packed = chunk + (block.first + uint64_t{words.first} * block.word - r.first);
    for (uint32_t i = words.first; i < words.first + words.count; ++i, packed += block.word) {
      char* const word = sides_[index].word(i, block.word, words.first, words.first + words.count);
      if (word == nullptr) {
        failed_ = true;
        return;
      }
      packs ? std::memcpy(packed, word, block.word) : std::memcpy(word, packed, block.word);
    }
  }
  /// Moves range `r` of the message to rank `to` to its destination.
  void move_blocks(uint32_t to, const Range& r) {
    for (uint32_t i = b_.from[to], target = b_.to[to]; i < b_.from[to + 1u] && !failed_; ++i, ++target) {
      const Block &block = b_.blocks[i], &other = b_.blocks[target];
      if (target >= b_.to[to + 1u] || block.bytes != other.bytes || block.word != other.word)
        abort_weft("broken rule", "the blocks of a message differ between its sides");
      const WordRange words = words_in(block, r);
      const uint32_t past = words.first + words.count;
      for (uint32_t word = words.first; word < past; ++word) {
        const char* const in = sides_[i].word(word, block.word, words.first, past);
        char* const out = sides_[target].word(word, block.word, words.first, past);
        if (in == nullptr || out == nullptr) {
          failed_ = true;
          return;
        }
        std::memcpy(out, in, block.word);
      }
    }
  }

  Blocks b_{};
  std::vector<LayoutSide> sides_;
  bool stored_ = false;
};

}  // namespace

std::unique_ptr<Kernel> create_collective_blocks(ContextObject& context, void** parameters) {
  return std::make_unique<BlocksKernel>(context, parameters);
}

}  // namespace emucuda
