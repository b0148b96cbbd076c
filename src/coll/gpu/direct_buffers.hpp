// SPDX-License-Identifier: BSD-3-Clause
// DirectBuffers: large blocking calls whose kernels store directly into the buffers of the other ranks. The
// buffers are mapped through the registration caches of point-to-point. Threading: under the instance lock.
#pragma once
#include <vector>

#include "base/result.hpp"
#include "coll/gpu/blocks.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/host/slot_channel.hpp"
#include "coll/schedule/call.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

/// Returns whether the size and kind of a call qualify; depends only on arguments that are equal on all
/// ranks.
[[nodiscard]] bool wants_direct_buffers(const Call& call, uint64_t largest,
                                        Layouts layouts = Layouts::contiguous);

/// Returns the plan of such a call without peer addresses; `capacity`: bytes for chunks in a region;
/// `max_blocks`: most blocks that run at the same time, 0: no limit.
[[nodiscard]] Plan direct_buffers_plan(const Call& call, uint64_t largest, uint64_t capacity,
                                       uint32_t max_blocks);

/// Returns whether the blocks of a call are stored one by one: several layouts, or several buffers.
[[nodiscard]] bool stores_blocks(const Call& call, Layouts layouts);
/// Chooses the chunks of the messages in `plan.collective` such that each thread block has at least
/// `least_chunks` of the longest one, unless chunks become too small.
void plan_movement_chunks(Plan& plan, uint64_t most_blocks, uint64_t most_bytes, uint64_t least_chunks);
/// Extra time in ns of storing `bytes` bytes through a region instead of a mapped buffer: of an all-reduce of
/// 256 MiB and an all-to-all of 16 MiB on four H200, a third to a half of its time (docs/adr/0011).
[[nodiscard]] uint64_t region_extra_ns(uint64_t bytes);
/// Errc::again: mapping a buffer does not pay yet.
[[nodiscard]] Error not_mapped_yet();
/// Most thread blocks of a call that stores blocks; `limit` as in direct_buffers_plan().
[[nodiscard]] uint64_t most_storing_blocks(const Call& call, uint32_t limit);
/// Most bytes of a chunk of such a call.
[[nodiscard]] uint64_t most_chunk_bytes(const Call& call);

class DirectBuffers {
 public:
  explicit DirectBuffers(core::Communicator& comm) : comm_(comm) {}
  ~DirectBuffers() { release(); }
  DirectBuffers(const DirectBuffers&) = delete;
  DirectBuffers& operator=(const DirectBuffers&) = delete;

  /// Collective, in the call: exchanges and maps buffers in two steps of `channel`. Returns true, on all
  /// ranks, if every rank has mapped what it stores to; fills in `plan`, and keeps the mappings until
  /// release().
  [[nodiscard]] bool prepare(const Call& call, uint64_t largest, const device::Memory& region,
                             uint32_t max_blocks, host::SlotChannel& channel, Plan& plan);
  /// The same for messages of blocks, whose receivers publish where each block belongs. `near`: memory of
  /// this rank's GPU.
  [[nodiscard]] bool prepare_blocks(const Call& call, const device::Memory& near, uint32_t max_blocks,
                                    host::SlotChannel& channel, Plan& plan);
  void release();

 private:
  struct Descriptor;
  struct Destinations;
  [[nodiscard]] Status describe(const Call& call, const device::kernel::Collective& c, Descriptor& own) const;
  [[nodiscard]] Status export_buffer(const device::Memory& memory, transport::cuda_ipc::Region& region) const;
  void note_remote_region(uint32_t rank, const transport::cuda_ipc::Region& region) const;
  [[nodiscard]] Status map(const Call& call, const std::vector<Descriptor>& descriptors,
                           const device::Memory& near, device::kernel::Direct& direct);

  [[nodiscard]] Status describe(const BlockShapes& shapes, uint32_t rank, Destinations& own) const;
  [[nodiscard]] Status map(const Destinations& theirs, uint32_t peer, uint32_t rank,
                           const device::Memory& near, std::vector<BlockShapes::Entry>& targets);
  /// Publishes in `step` whether this rank has mapped all that it stores to. Returns true if all ranks have.
  [[nodiscard]] bool agree(Status able, host::Step step, host::SlotChannel& channel);

  core::Communicator& comm_;
  std::vector<transport::cuda_ipc::Mapping*> mappings_;
};

}  // namespace weft::coll::gpu
