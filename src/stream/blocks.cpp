// SPDX-License-Identifier: BSD-3-Clause
// Enqueued collectives that move data of any regular layout: neighborhoods, and blocks of different sizes or
// types. The messages of other ranks are unknown, so pairs of ranks divide them
// (device/kernel/stream_blocks.hpp).
#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/trace.hpp"
#include "coll/gpu/messages.hpp"
#include "device/kernel/stream_beat.hpp"
#include "stream/queue.hpp"

namespace weft::stream {
namespace {

using device::kernel::StreamBlocks;

/// A block of a message, not empty.
struct Entry {
  int peer;
  Side side;
  uint32_t word;
};
using Entries = std::vector<Entry>;

/// The blocks of a call, by peers, those of a peer in the order of the call.
class Sides final : public coll::gpu::BlockSink {
 public:
  using Describe = std::function<Result<Side>(const p2p::Buffer&)>;
  explicit Sides(Describe describe) : describe_(std::move(describe)) {}
  void send(int to, const p2p::Buffer& block) override { add(sent, to, block); }
  void receive(int from, const p2p::Buffer& block) override { add(received, from, block); }
  /// Blocks of this rank to itself are moved by words of one size.
  Status match_own(int rank) {
    const auto of_rank = [rank](const Entry& entry) { return entry.peer == rank; };
    auto from = std::find_if(sent.begin(), sent.end(), of_rank);
    auto to = std::find_if(received.begin(), received.end(), of_rank);
    for (; from != sent.end() && of_rank(*from); ++from, ++to) {
      if (to == received.end() || !of_rank(*to) || to->side.bytes != from->side.bytes) return unequal();
      from->word = to->word = std::min(from->word, to->word);
    }
    return to != received.end() && of_rank(*to) ? unequal() : Status();
  }
  Status arrange(int rank) {
    WEFT_TRY(std::move(failed_));
    for (Entries* const list : {&sent, &received})
      std::stable_sort(list->begin(), list->end(),
                       [](const Entry& a, const Entry& b) { return a.peer < b.peer; });
    return match_own(rank);
  }

  Entries sent, received;

 private:
  void add(Entries& list, int peer, p2p::Buffer block) {
    if (!failed_.ok() || coll::empty(block)) return;
    block.memory = nullptr;  // that of the whole operand
    auto side = describe_(block);
    if (!side)
      failed_ = std::move(side).error();
    else
      list.push_back({peer, *side, device::word_of(side->shape, side->bytes)});
  }
  static Error unequal() {
    return {Errc::truncate, "the blocks of this rank to itself have different sizes on both sides"};
  }

  Describe describe_;
  Status failed_;
};

/// Appends the blocks of a list; `starts`: the first block of each peer.
Status append(StreamBlocks& planned, uint32_t& used, const Entries& list, uint8_t* starts) {
  size_t i = 0;
  for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
    starts[peer] = static_cast<uint8_t>(used);
    for (; i < list.size() && static_cast<uint32_t>(list[i].peer) == peer; ++i, ++used) {
      const Entry& entry = list[i];
      auto block = device::block_of(entry.side.shape, entry.side.bytes, entry.word, 0);
      if (!block) return std::move(block).error();
      StreamBlocks::Block& to = planned.blocks[used];
      to.address = block->layout.address;
      std::copy(std::begin(block->layout.stride), std::end(block->layout.stride), to.stride);
      to.run = block->layout.run;
      std::copy(std::begin(block->layout.count), std::end(block->layout.count), to.count);
      to.words = static_cast<uint32_t>(entry.side.bytes / entry.word);
      planned.dimensions[used] = static_cast<uint8_t>(block->layout.dimensions);
      planned.word[used] = static_cast<uint8_t>(entry.word);
    }
  }
  return {};
}

/// Thread blocks for the messages between two ranks, at most; equal on all ranks. 0: too few run at a time.
uint32_t most_blocks(const Mailbox& mailbox, int ranks) {
  const uint32_t all = mailbox.max_blocks() == 0 ? StreamBlocks::kAllBlocks
                                                 : std::min(mailbox.max_blocks(), StreamBlocks::kAllBlocks);
  return std::min(all / static_cast<uint32_t>(ranks), StreamBlocks::kPairBlocks);
}

}  // namespace

Result<std::unique_ptr<StreamBlocks>> Queue::plan_blocks(const coll::Call& call) const {
  WEFT_ASSERT(call.op == nullptr);  // S9
  const uint32_t most = mailbox_->has_collectives() ? most_blocks(*mailbox_, call.size) : 0;
  if (most == 0) return std::unique_ptr<StreamBlocks>();
  Sides sides([this](const p2p::Buffer& buffer) { return describe(comm_, *stream_->gpu, buffer, 0); });
  coll::gpu::visit_blocks(call, sides);
  WEFT_TRY(sides.arrange(call.rank));
  if (sides.sent.size() + sides.received.size() > StreamBlocks::kMost)
    return Error(Errc::unsupported, std::to_string(sides.sent.size() + sides.received.size()) +
                                        " blocks are sent and received, but a kernel in a stream takes " +
                                        std::to_string(StreamBlocks::kMost) +
                                        " at most: join blocks by a datatype, or use messages");
  auto planned = std::make_unique<StreamBlocks>();
  const auto size = static_cast<uint32_t>(call.size);
  planned->rank = static_cast<uint32_t>(call.rank);
  planned->size = size;
  planned->most_blocks = most;
  const uint64_t chunks = 2ull * planned->most_blocks * std::max(size - 1, 1u);
  planned->chunk_stride = static_cast<uint32_t>(Mailbox::simple_capacity() / chunks / 128 * 128);
  uint32_t used = 0;
  WEFT_TRY(append(*planned, used, sides.sent, planned->from));
  WEFT_TRY(append(*planned, used, sides.received, planned->to));
  uint32_t blocks = 0;
  for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
    planned->first_block[peer] = static_cast<uint8_t>(blocks);
    if (peer < size) blocks += planned->split(peer).blocks;
  }
  WEFT_ASSERT(blocks <= StreamBlocks::kAllBlocks);  // S9
  planned->cancel =
      device::kernel::Collective::kCancelWord | reinterpret_cast<uint64_t>(&mailbox_->fault().cancelled);
  planned->beat = reinterpret_cast<uint64_t>(mailbox_->collective_beat());
  for (int rank = 0; rank < call.size; ++rank) planned->regions[rank] = mailbox_->collective_region_of(rank);
  return planned;
}

Status Queue::move_blocks(StreamBlocks& planned) {
  WEFT_TRY(check_ranks());
  if (!pending_.empty()) return unfinished_messages();
  used_ = true;
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  const trace::Range range("stream.collective");
  planned.beat_id = view_.publish_collective(collective_name_, target_.handle, *captured != 0);
  WEFT_TRY(turns_.take(comm_.instance, polls_, [&] { return device::enqueue_blocks(target_, planned); }));
  return report_fault();
}

}  // namespace weft::stream
