// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/pair_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::PairBlocks;
using device::kernel::PairSplit;

constexpr uint64_t kMostChunkBytes = uint64_t{UINT16_MAX} * PairBlocks::kChunkUnit;

/// Appends the blocks of a list; `starts`: the first block of each peer.
Status append(PairBlocks& planned, uint32_t& used, const std::vector<BlockShapes::Entry>& list,
              uint8_t* starts) {
  size_t i = 0;
  for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
    starts[peer] = static_cast<uint8_t>(used);
    for (; i < list.size() && list[i].peer == peer; ++i) {
      auto runs = device::strided_runs(list[i].shape, list[i].bytes, list[i].word);
      if (!runs) return std::move(runs).error();
      planned.set(used++, list[i].shape.address, *runs, list[i].bytes);
    }
  }
  return {};
}

/// `bytes`: of the longer of two messages; `ll_bytes`: most bytes of an LL message.
PairSplit split_of(const PairBlocks& planned, uint64_t bytes, uint64_t ll_bytes) {
  constexpr uint32_t kLLBlockBytes = 4096, kBlockBytes = 16384;
  const auto clamped = [&](uint64_t blocks) {
    return static_cast<uint32_t>(std::clamp<uint64_t>(blocks, 1, planned.most_blocks));
  };
  if (bytes == 0) return {0, 0};
  if (bytes <= ll_bytes) return {clamped(bytes / kLLBlockBytes), 0};
  const uint32_t n = clamped(bytes / kBlockBytes);
  const uint64_t units = (bytes + uint64_t{n} * PairBlocks::kChunkUnit - 1) / n / PairBlocks::kChunkUnit;
  return {n, static_cast<uint32_t>(std::min<uint64_t>(units * PairBlocks::kChunkUnit, planned.chunk_stride))};
}

}  // namespace

uint32_t most_pair_blocks(uint32_t max_blocks, int ranks) {
  const auto all = static_cast<uint32_t>(limited(PairBlocks::kAllBlocks, max_blocks));
  return std::min(all / static_cast<uint32_t>(ranks), PairBlocks::kPairBlocks);
}

Result<std::unique_ptr<PairBlocks>> pair_blocks(const Call& call, const BlockShapes& shapes,
                                                const RegionCapacity& capacity) {
  auto planned = std::make_unique<PairBlocks>();
  const auto size = static_cast<uint32_t>(call.size), rank = static_cast<uint32_t>(call.rank);
  const uint32_t most = most_pair_blocks(capacity.max_blocks, call.size);
  WEFT_ASSERT(most != 0 && shapes.sent.size() + shapes.received.size() <= PairBlocks::kMost);  // S9
  planned->rank = static_cast<uint8_t>(rank);
  planned->size = static_cast<uint8_t>(size);
  planned->most_blocks = static_cast<uint8_t>(most);
  const uint64_t stride = capacity.simple / (2ull * most * std::max(size - 1, 1u));
  planned->chunk_stride = static_cast<uint32_t>(
      std::min(stride / PairBlocks::kChunkUnit * PairBlocks::kChunkUnit, kMostChunkBytes));
  uint32_t used = 0, blocks = 0;
  WEFT_TRY(append(*planned, used, shapes.sent, planned->from));
  WEFT_TRY(append(*planned, used, shapes.received, planned->to));
  for (uint32_t peer = 0; peer <= device::kernel::Collective::kRanks; ++peer) {
    planned->first_block[peer] = static_cast<uint8_t>(blocks);
    if (peer >= size) continue;
    const uint64_t longest =
        std::max(planned->message_bytes(planned->from, peer), planned->message_bytes(planned->to, peer));
    const PairSplit split = split_of(*planned, longest, std::min(PairBlocks::kLLBytes, capacity.ll));
    blocks += split.blocks;
    planned->chunks[peer] = static_cast<uint16_t>(split.chunk_bytes / PairBlocks::kChunkUnit);
    if (peer == rank || split.blocks == 0) continue;
    (split.chunk_bytes == 0 ? planned->ll : planned->simple) = true;
  }
  WEFT_ASSERT(blocks <= PairBlocks::kAllBlocks);  // S9
  return planned;
}

}  // namespace weft::coll::gpu
