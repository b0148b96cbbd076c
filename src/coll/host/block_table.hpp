// SPDX-License-Identifier: BSD-3-Clause
// The blocks of different sizes that a rank publishes in one step: the data of the blocks that fit a page,
// then a table with the receiver and the size of each block. The other blocks are messages.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "coll/host/slot_steps.hpp"

namespace weft::coll::host {

/// Entry of the table. The table ends with the number of entries, and kCut if there are more blocks, which
/// are messages.
struct BlockEntry {
  static constexpr uint32_t kByMessage = (1u << 24) - 1;
  static constexpr uint32_t kCut = 1u << 31;
  uint32_t dest : 8;
  uint32_t bytes : 24;  ///< or kByMessage
};

/// Decides which blocks are published. Blocks are added in the order of their messages; empty blocks are not.
class BlockPlacement {
 public:
  static constexpr uint32_t kMaxEntries = 63;
  static constexpr uint32_t kMaxData =  ///< bytes of all blocks that are published
      SlotSteps::kPageBytes - sizeof(uint32_t) - kMaxEntries * sizeof(BlockEntry);
  /// Returns whether the next block is published; otherwise it is a message.
  bool add(uint64_t bytes) {
    const bool published = blocks_++ < kMaxEntries && bytes <= kMaxData - data_;
    if (published)
      data_ += static_cast<uint32_t>(bytes);
    else
      messages_ = true;
    return published;
  }
  [[nodiscard]] bool messages() const { return messages_; }
  [[nodiscard]] uint32_t entries() const { return std::min(blocks_, kMaxEntries); }
  [[nodiscard]] uint32_t last_word() const {
    return entries() | (blocks_ > kMaxEntries ? BlockEntry::kCut : 0u);
  }
  [[nodiscard]] uint32_t data_bytes() const { return data_; }
  /// Bytes of data and table.
  [[nodiscard]] size_t size() const { return data_ + entries() * sizeof(BlockEntry) + sizeof(uint32_t); }

 private:
  uint32_t blocks_ = 0, data_ = 0;
  bool messages_ = false;
};

/// Writes the blocks of a placement.
class BlockWriter {
 public:
  BlockWriter(std::byte* page, const BlockPlacement& placed)
      : data_(page), entry_(page + placed.data_bytes()), end_(page + placed.size() - sizeof(uint32_t)) {
    const uint32_t last = placed.last_word();
    std::memcpy(end_, &last, sizeof last);
  }
  /// Adds an entry; returns the address for the data of the block.
  std::byte* add(int dest, uint64_t bytes) {
    write(dest, static_cast<uint32_t>(bytes));
    std::byte* const data = data_;
    data_ += bytes;
    return data;
  }
  void add_message(int dest) {
    if (entry_ != end_) write(dest, BlockEntry::kByMessage);
  }

 private:
  void write(int dest, uint32_t bytes) {
    const BlockEntry entry{static_cast<uint32_t>(dest), bytes};
    std::memcpy(entry_, &entry, sizeof entry);
    entry_ += sizeof entry;
  }
  std::byte *data_, *entry_, *const end_;
};

/// Reads the blocks for one rank, in their order, in what another rank has published.
class BlockReader {
 public:
  struct Block {
    const std::byte* data;
    uint32_t bytes;  ///< or kByMessage; 0: there is no such block
  };
  [[nodiscard]] static BlockReader at_begin() {
    BlockReader reader;
    reader.entry_ = reader.data_ = 0;
    return reader;
  }
  /// Returns the next block for rank `rank`. `published` is the same in all calls.
  Block next(const Published& published, int rank) {
    uint32_t last;
    const std::byte* const end = published.data + published.size - sizeof last;
    std::memcpy(&last, end, sizeof last);
    const uint32_t entries = last & ~BlockEntry::kCut;
    const std::byte* const table = end - entries * sizeof(BlockEntry);
    while (entry_ < entries) {
      BlockEntry entry;
      std::memcpy(&entry, table + entry_++ * sizeof entry, sizeof entry);
      const Block block{published.data + data_, entry.bytes};
      if (entry.bytes != BlockEntry::kByMessage) data_ += entry.bytes;
      WEFT_ASSERT(published.data + data_ <= table);
      if (entry.dest == static_cast<uint32_t>(rank)) return block;
    }
    return {nullptr, last == entries ? 0 : BlockEntry::kByMessage};
  }

 private:
  uint32_t entry_, data_;  // the next entry, and bytes of the data before it
};

}  // namespace weft::coll::host
