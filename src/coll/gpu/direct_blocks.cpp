// SPDX-License-Identifier: BSD-3-Clause
// DirectBuffers: calls that store strided blocks where they belong in the buffers of the other ranks.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "coll/gpu/direct_buffers.hpp"
#include "core/memory_registry.hpp"

namespace weft::coll::gpu {
namespace {

using transport::cuda_ipc::Region;

constexpr uint32_t kMostRegions = 8;
constexpr uint32_t kNoRegion = UINT32_MAX;
// With layouts a thread computes addresses for each chunk, so a thread block has few and large ones: 4 MiB to
// each of four ranks in chunks of 4 KiB takes three times as long as contiguous blocks.
constexpr uint64_t kChunkFactor = 4, kLeastChunks = 1;

}  // namespace

/// Published by each rank: the blocks that it receives, and the allocations that hold them.
struct DirectBuffers::Destinations {
  struct Block {
    BlockShapes::Entry entry;
    uint32_t region;  ///< kNoRegion: of this rank itself
  };
  uint32_t good, regions, count;
  Region region[kMostRegions];
  Block blocks[device::kernel::Blocks::kMost];
  [[nodiscard]] size_t size() const { return offsetof(Destinations, blocks) + count * sizeof(Block); }
};

/// Exports the allocations of the blocks that other ranks store.
Status DirectBuffers::describe(const BlockShapes& shapes, uint32_t rank, Destinations& own) const {
  for (const BlockShapes::Entry& entry : shapes.received) {
    auto& block = own.blocks[own.count++];
    block = {entry, kNoRegion};
    if (entry.peer == rank) continue;
    const auto* const low = reinterpret_cast<const void*>(entry.low);
    const uint64_t bytes = entry.high - entry.low;
    const device::Memory memory = device::widened(device::classify(low), low, bytes);
    if (!memory.on_device() || !memory.covers(low, bytes))
      return Error(Errc::unsupported, "a block of this rank is not within one allocation");
    const Region *const first = own.region, *const end = first + own.regions;
    const Region* const known =
        std::find_if(first, end, [&](const Region& region) { return region.buffer_id == memory.buffer_id; });
    block.region = static_cast<uint32_t>(known - first);
    if (known != end) continue;
    if (own.regions == kMostRegions)
      return Error(Errc::unsupported, "the blocks of this rank lie in many allocations");
    WEFT_TRY(export_buffer(memory, own.region[own.regions]));
    ++own.regions;
  }
  return {};
}

/// Maps what this rank, `rank`, stores at rank `peer`; appends the blocks as mapped here. Errc::again:
/// mapping an allocation does not pay yet.
Status DirectBuffers::map(const Destinations& theirs, uint32_t peer, uint32_t rank,
                          const device::Memory& near, std::vector<BlockShapes::Entry>& targets) {
  const auto process = comm_.process(static_cast<int>(peer));
  uint64_t bytes[kMostRegions] = {};
  for (uint32_t i = 0; i < theirs.count; ++i)
    if (theirs.blocks[i].entry.peer == rank && peer != rank)
      bytes[theirs.blocks[i].region] += theirs.blocks[i].entry.bytes;
  transport::cuda_ipc::Mapping* mappings[kMostRegions] = {};
  for (uint32_t i = 0; i < theirs.regions; ++i) {
    if (bytes[i] == 0) continue;
    if (!comm_.instance.memory->mapping_pays(
            {process, false, theirs.region[i].buffer_id}, [&] { return region_extra_ns(bytes[i]); },
            core::MappingRule::Alternative::collective))
      return not_mapped_yet();
    auto mapping = comm_.instance.memory->open(process, theirs.region[i], nullptr, near);
    if (!mapping) return std::move(mapping).error();
    mappings_.push_back(mappings[i] = *mapping);
  }
  for (uint32_t i = 0; i < theirs.count; ++i) {
    BlockShapes::Entry entry = theirs.blocks[i].entry;
    if (entry.peer != rank) continue;
    entry.peer = peer;
    if (peer != rank) {
      const uint64_t low = reinterpret_cast<uint64_t>(mappings[theirs.blocks[i].region]->at(entry.low));
      entry.shape.address += low - entry.low;  // the displacements of its runs stay as they are
    }
    targets.push_back(entry);
  }
  return {};
}

bool DirectBuffers::prepare_blocks(const Call& call, const device::Memory& near, uint32_t limit,
                                   host::SlotChannel& channel, Plan& plan) {
  const host::Step step = channel.reserve_steps(2);
  plan.collective = block_messages_of(call);
  const auto& c = plan.collective;
  plan_movement_chunks(plan, most_storing_blocks(call, limit), kChunkFactor * most_chunk_bytes(call),
                       kLeastChunks);
  plan.protocol = device::Protocol::direct;
  plan.threads = threads_for(plan.blocks);
  Destinations own{};
  auto shapes = block_shapes(call, near);
  Status able = shapes ? describe(*shapes, c.rank, own) : Status(std::move(shapes).error());
  own.good = able.ok() ? 1 : 0;
  std::memcpy(channel.claim(step, own.size()), &own, own.size());
  channel.publish(step, own.size());
  std::vector<BlockShapes::Entry> targets;
  Status pays;
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    const auto published = channel.wait_published(static_cast<int>(rank), step);
    if (channel.broken()) {
      release();
      return false;
    }
    Destinations theirs{};
    std::memcpy(static_cast<void*>(&theirs), published.data, std::min(published.size, sizeof theirs));
    for (uint32_t i = 0; i < theirs.regions && rank != c.rank; ++i)
      note_remote_region(rank, theirs.region[i]);
    if (theirs.good == 0 && able.ok())
      able =
          Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot export its buffer: see its log");
    if (!able.ok()) continue;
    Status mapped = map(theirs, rank, c.rank, near, targets);
    if (!mapped.ok()) (mapped.error().code() == Errc::again ? pays : able) = std::move(mapped);
  }
  channel.exchanged(step, step);
  if (able.ok()) able = std::move(pays);
  if (able.ok()) {
    auto blocks = stored_blocks(*shapes, targets, c);
    if (blocks)
      plan.layouts = std::move(*blocks);
    else
      able = std::move(blocks).error();
  }
  return agree(std::move(able), step + 1, channel);
}

}  // namespace weft::coll::gpu
