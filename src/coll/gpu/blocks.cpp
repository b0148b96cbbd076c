// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/blocks.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "datatype/shape.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::Block;
using device::kernel::Blocks;
using Entry = BlockShapes::Entry;

config::Choice layouts_enabled{
    "coll.gpu_layouts",
    0,
    {"auto", "on", "off"},
    "Collectives on noncontiguous device buffers, or with several edges between "
    "two neighbors, by kernels: auto (from three ranks on), on, off (by messages)."};
constexpr int kLeastRanks = 3;  // between two H200 messages take 0.4 to 1.4 times as long (ADR 0059)

/// The shapes of the blocks of a call.
class ShapeSink final : public BlockSink {
 public:
  explicit ShapeSink(const device::Memory& near) : near_(near) {}
  void send(int to, const p2p::Buffer& block) override { add(shapes_.sent, to, block); }
  void receive(int from, const p2p::Buffer& block) override { add(shapes_.received, from, block); }
  /// Sorts the blocks by peers; fills in their positions in the messages.
  Result<BlockShapes> take() {
    WEFT_TRY(std::move(failed_));
    arrange(shapes_.sent);
    arrange(shapes_.received);
    return std::move(shapes_);
  }

 private:
  void add(std::vector<Entry>& list, int peer, const p2p::Buffer& block) {
    if (!failed_.ok() || empty(block)) return;
    if (shapes_.sent.size() + shapes_.received.size() == Blocks::kMost) {
      failed_ = Error(Errc::unsupported, "a rank has more than " + std::to_string(Blocks::kMost) + " blocks");
      return;
    }
    auto shape = datatype::shape_of(*block.type, block.count, block.address, 0, near_);
    if (!shape) {
      failed_ = std::move(shape).error();
      return;
    }
    const int64_t last = (block.count - 1) * block.type->extent();
    const auto address = reinterpret_cast<uint64_t>(block.address);
    const auto low = address + static_cast<uint64_t>(block.type->true_lb() + std::min<int64_t>(last, 0));
    const auto high = address + static_cast<uint64_t>(block.type->true_ub() + std::max<int64_t>(last, 0));
    list.push_back(
        {static_cast<uint32_t>(peer), static_cast<uint64_t>(packed_bytes(block)), 0, *shape, low, high});
  }
  static void arrange(std::vector<Entry>& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Entry& a, const Entry& b) { return a.peer < b.peer; });
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].peer == list[i - 1].peer)
        list[i].first =
            (list[i - 1].first + list[i - 1].bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }

  const device::Memory& near_;
  BlockShapes shapes_;
  Status failed_;
};

/// Fills in the table of blocks.
class Table {
 public:
  explicit Table(const device::kernel::Collective& collective) : blocks_(std::make_unique<Blocks>()) {
    blocks_->call = collective;
  }
  /// Appends blocks by peers, in words of at most words[i] bytes. `starts`: first block of each peer.
  Status add(const std::vector<Entry>& list, const std::vector<uint32_t>& words, uint8_t* starts) {
    size_t i = 0;
    for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
      starts[peer] = static_cast<uint8_t>(used_);
      for (; i < list.size() && list[i].peer == peer; ++i) {
        if (used_ == Blocks::kMost) return Error(Errc::unsupported, "the messages have too many blocks");
        auto block = device::block_of(list[i].shape, list[i].bytes, words[i], list[i].first);
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

std::vector<uint32_t> words_of(const std::vector<Entry>& list) {
  std::vector<uint32_t> words;
  for (const Entry& entry : list) words.push_back(device::word_of(entry.shape, entry.bytes));
  return words;
}

Error unequal_blocks() {
  return Error(Errc::unsupported, "blocks between two ranks have different sizes on both sides");
}

/// Index of the first block of `peer`.
size_t first_of(const std::vector<Entry>& list, uint32_t peer) {
  return static_cast<size_t>(
      std::find_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.peer >= peer; }) -
      list.begin());
}

/// Blocks that this rank sends to itself have the same words on both sides.
Status match_own(const BlockShapes& shapes, uint32_t rank, std::vector<uint32_t>& from,
                 std::vector<uint32_t>& to) {
  size_t i = first_of(shapes.sent, rank), k = first_of(shapes.received, rank);
  const size_t sent_end = first_of(shapes.sent, rank + 1), received_end = first_of(shapes.received, rank + 1);
  if (sent_end - i != received_end - k) return unequal_blocks();
  for (; i < sent_end; ++i, ++k) {
    if (shapes.sent[i].bytes != shapes.received[k].bytes) return unequal_blocks();
    from[i] = to[k] = std::min(from[i], to[k]);
  }
  return {};
}

Result<std::unique_ptr<Blocks>> packed_blocks(const BlockShapes& shapes,
                                              const device::kernel::Collective& collective) {
  std::vector<uint32_t> from = words_of(shapes.sent), to = words_of(shapes.received);
  WEFT_TRY(match_own(shapes, collective.rank, from, to));
  Table table(collective);
  WEFT_TRY(table.add(shapes.sent, from, table.get().from));
  WEFT_TRY(table.add(shapes.received, to, table.get().to));
  return table.take();
}

}  // namespace

Result<BlockShapes> block_shapes(const Call& call, const device::Memory& near) {
  ShapeSink sink(near);
  visit_blocks(call, sink);
  return sink.take();
}

bool supports_layouts(const Call& call) {
  const bool chosen = layouts_enabled.is("on") || (layouts_enabled.is("auto") && call.size >= kLeastRanks);
  return call.op == nullptr && chosen && 2 * call.size <= static_cast<int>(Blocks::kMost);
}

std::optional<Layouts> movable_layouts(const Call& call, const device::Memory& near) {
  if (!supports_layouts(call)) return std::nullopt;
  auto shapes = block_shapes(call, near);
  if (!shapes) return std::nullopt;
  device::kernel::Collective sample{};
  sample.rank = static_cast<uint32_t>(call.rank);
  if (!packed_blocks(*shapes, sample)) return std::nullopt;
  const bool tables = std::any_of(shapes->received.begin(), shapes->received.end(),
                                  [](const Entry& entry) { return entry.shape.table != nullptr; });
  return tables ? Layouts::tables : Layouts::strided;
}

Result<std::unique_ptr<Blocks>> packed_blocks(const Call& call, const device::kernel::Collective& collective,
                                              const device::Memory& near) {
  auto shapes = block_shapes(call, near);
  if (!shapes) return std::move(shapes).error();
  return packed_blocks(*shapes, collective);
}

Result<std::unique_ptr<Blocks>> stored_blocks(const BlockShapes& shapes, const std::vector<Entry>& targets,
                                              const device::kernel::Collective& collective) {
  if (targets.size() != shapes.sent.size()) return unequal_blocks();
  std::vector<uint32_t> words = words_of(shapes.sent);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].peer != shapes.sent[i].peer || targets[i].bytes != shapes.sent[i].bytes)
      return unequal_blocks();
    words[i] = std::min(words[i], device::word_of(targets[i].shape, targets[i].bytes));
  }
  Table table(collective);
  WEFT_TRY(table.add(shapes.sent, words, table.get().from));
  WEFT_TRY(table.add(targets, words, table.get().to));
  table.get().direct = 1;
  return table.take();
}

}  // namespace weft::coll::gpu
