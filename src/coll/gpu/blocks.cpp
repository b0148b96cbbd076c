// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/blocks.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "coll/schedule/hints.hpp"
#include "datatype/shape.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::Block;
using device::kernel::Blocks;
using Entry = BlockShapes::Entry;
using Entries = std::vector<Entry>;

config::Choice layouts_enabled{
    "coll.gpu_layouts",
    0,
    {"auto", "on", "off"},
    "Collectives on noncontiguous device buffers, or with several edges between "
    "two neighbors, by kernels: auto (large messages from three ranks on), on, off (by messages)."};
config::Size pairs_max{
    "coll.gpu_layouts_pairs_max_bytes", 4 << 20, 0, kMostLayoutBytes,
    "Largest message in bytes of collectives on strided device buffers, among neighbors or from three ranks "
    "on, for which each two ranks choose a protocol for the messages between them; 0: all ranks choose one "
    "protocol."};
constexpr int kLeastRanks = 3;  // between two H200 messages take 0.4 to 1.4 times as long (ADR 0059)

/// The shapes of the blocks of a call.
class ShapeSink final : public BlockSink {
 public:
  ShapeSink(size_t most, const DescribeBlock& describe) : most_(most), describe_(describe) {}
  void send(int to, const p2p::Buffer& block) override { add(shapes_.sent, to, block); }
  void receive(int from, const p2p::Buffer& block) override { add(shapes_.received, from, block); }
  /// Sorts the blocks by peers; fills in their positions in the messages.
  Result<BlockShapes> take(uint32_t rank) {
    WEFT_TRY(std::move(failed_));
    arrange(shapes_.sent);
    arrange(shapes_.received);
    WEFT_TRY(match_own(rank));
    return std::move(shapes_);
  }

 private:
  void add(Entries& list, int peer, p2p::Buffer block) {
    if (!failed_.ok() || empty(block)) return;
    if (shapes_.sent.size() + shapes_.received.size() == most_) {
      failed_ = Error(Errc::unsupported, "a rank sends and receives more than " + std::to_string(most_) +
                                             " blocks: join blocks by a datatype, or use messages");
      return;
    }
    block.memory = nullptr;  // that of the whole operand
    auto shape = describe_(block);
    if (!shape) {
      failed_ = std::move(shape).error();
      return;
    }
    const auto bytes = static_cast<uint64_t>(packed_bytes(block));
    const int64_t last = (block.count - 1) * block.type->extent();
    const auto address = reinterpret_cast<uint64_t>(block.address);
    const auto low = address + static_cast<uint64_t>(block.type->true_lb() + std::min<int64_t>(last, 0));
    const auto high = address + static_cast<uint64_t>(block.type->true_ub() + std::max<int64_t>(last, 0));
    list.push_back(
        {static_cast<uint32_t>(peer), device::word_of(*shape, bytes), bytes, 0, *shape, low, high});
  }
  static void arrange(Entries& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Entry& a, const Entry& b) { return a.peer < b.peer; });
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].peer == list[i - 1].peer)
        list[i].first =
            (list[i - 1].first + list[i - 1].bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  /// Blocks that this rank sends to itself have the same words on both sides.
  Status match_own(uint32_t rank) {
    const auto of_rank = [rank](const Entry& entry) { return entry.peer == rank; };
    Entries &sent = shapes_.sent, &received = shapes_.received;
    auto from = std::find_if(sent.begin(), sent.end(), of_rank);
    auto to = std::find_if(received.begin(), received.end(), of_rank);
    for (; from != sent.end() && of_rank(*from); ++from, ++to) {
      if (to == received.end() || !of_rank(*to) || to->bytes != from->bytes) return unequal();
      from->word = to->word = std::min(from->word, to->word);
    }
    return to != received.end() && of_rank(*to) ? unequal() : Status();
  }
  static Status unequal() {
    return Error(Errc::truncate, "the blocks of this rank to itself have different sizes on both sides");
  }

  size_t most_;
  const DescribeBlock& describe_;
  BlockShapes shapes_;
  Status failed_;
};

/// Fills in the table of blocks.
class Table {
 public:
  explicit Table(const device::kernel::Collective& collective) : blocks_(std::make_unique<Blocks>()) {
    blocks_->call = collective;
  }
  /// Appends blocks by peers. `starts`: first block of each peer.
  Status add(const Entries& list, uint8_t* starts) {
    size_t i = 0;
    for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
      starts[peer] = static_cast<uint8_t>(used_);
      for (; i < list.size() && list[i].peer == peer; ++i) {
        if (used_ == Blocks::kMost) return Error(Errc::unsupported, "the messages have too many blocks");
        auto block = device::block_of(list[i].shape, list[i].bytes, list[i].word, list[i].first);
        if (!block) return std::move(block).error();
        blocks_->blocks[used_++] = *block;
      }
    }
    return {};
  }
  [[nodiscard]] Blocks& get() { return *blocks_; }
  [[nodiscard]] std::unique_ptr<Blocks> take() { return std::move(blocks_); }

 private:
  std::unique_ptr<Blocks> blocks_;
  size_t used_ = 0;
};

Error unequal_blocks() {
  return Error(Errc::unsupported, "blocks between two ranks have different sizes on both sides");
}

/// Whether the counters of kernels suffice.
bool fits(const Entries& list) {
  return std::all_of(list.begin(), list.end(), [](const Entry& entry) {
    return device::block_of(entry.shape, entry.bytes, entry.word, 0).ok();
  });
}

bool has_table(const Entries& list) {
  return std::any_of(list.begin(), list.end(),
                     [](const Entry& entry) { return entry.shape.table != nullptr; });
}

}  // namespace

Result<BlockShapes> block_shapes(const Call& call, size_t most, const DescribeBlock& describe) {
  ShapeSink sink(most, describe);
  visit_blocks(call, sink);
  return sink.take(static_cast<uint32_t>(call.rank));
}

Result<BlockShapes> block_shapes(const Call& call, const device::Memory& near) {
  return block_shapes(call, Blocks::kMost, [&near](const p2p::Buffer& block) {
    return datatype::shape_of(*block.type, block.count, block.address, 0, near);
  });
}

bool moves_layouts_by_blocks(const Call& call) {
  return layouts_enabled.is("on") || (layouts_enabled.is("auto") && call.size >= kLeastRanks);
}

bool moves_layouts_by_pairs(const Call& call, uint64_t largest, Layouts layouts) {
  if (layouts != Layouts::strided || largest > value_for(call, pairs_max)) return false;
  if (call.what == Collective::bcast) return false;  // one message, whose sender does not wait
  return moves_layouts_by_blocks(call) || (layouts_enabled.is("auto") && among_neighbors(call));
}

bool supports_layouts(const Call& call) {
  const bool chosen = moves_layouts_by_blocks(call) || moves_layouts_by_pairs(call, 1, Layouts::strided);
  return call.op == nullptr && chosen && 2 * call.size <= static_cast<int>(Blocks::kMost);
}

std::optional<Layouts> movable_layouts(const Call& call, const device::Memory& near) {
  if (!supports_layouts(call)) return std::nullopt;
  auto shapes = block_shapes(call, near);
  if (!shapes || !fits(shapes->sent) || !fits(shapes->received)) return std::nullopt;
  return has_table(shapes->received) ? Layouts::tables
         : has_table(shapes->sent)   ? Layouts::sent_tables
                                     : Layouts::strided;
}

Result<std::unique_ptr<Blocks>> packed_blocks(const Call& call, const device::kernel::Collective& collective,
                                              const device::Memory& near) {
  auto shapes = block_shapes(call, near);
  if (!shapes) return std::move(shapes).error();
  Table table(collective);
  WEFT_TRY(table.add(shapes->sent, table.get().from));
  WEFT_TRY(table.add(shapes->received, table.get().to));
  return table.take();
}

Result<std::unique_ptr<Blocks>> stored_blocks(const BlockShapes& shapes, const Entries& targets,
                                              const device::kernel::Collective& collective) {
  if (targets.size() != shapes.sent.size()) return unequal_blocks();
  Entries from = shapes.sent, to = targets;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].peer != from[i].peer || to[i].bytes != from[i].bytes) return unequal_blocks();
    from[i].word = to[i].word = std::min(from[i].word, device::word_of(to[i].shape, to[i].bytes));
  }
  Table table(collective);
  WEFT_TRY(table.add(from, table.get().from));
  WEFT_TRY(table.add(to, table.get().to));
  table.get().direct = 1;
  return table.take();
}

}  // namespace weft::coll::gpu
