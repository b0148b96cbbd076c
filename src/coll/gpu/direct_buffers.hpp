// SPDX-License-Identifier: BSD-3-Clause
// DirectBuffers: large blocking calls whose kernels store directly into the buffers of the other ranks. The
// buffers are mapped through the registration caches of point-to-point. Threading: under the instance lock.
#pragma once
#include <vector>

#include "base/result.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/host/slot_channel.hpp"
#include "coll/schedule/call.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::coll::gpu {

/// Returns whether the size and kind of a call qualify; depends only on arguments that are equal on all
/// ranks.
[[nodiscard]] bool wants_direct_buffers(const Call& call, uint64_t largest);

/// Returns the plan of such a call without peer addresses; `capacity`: bytes for chunks in a region;
/// `max_blocks`: most blocks that run at the same time, 0: no limit.
[[nodiscard]] Plan direct_buffers_plan(const Call& call, uint64_t largest, uint64_t capacity,
                                       uint32_t max_blocks);

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
  void release();

 private:
  struct Descriptor;
  [[nodiscard]] Status describe(const Call& call, const device::kernel::Collective& c, Descriptor& own) const;
  [[nodiscard]] Status export_buffer(const device::Memory& memory, transport::cuda_ipc::Region& region) const;
  void note_remote_region(uint32_t rank, const transport::cuda_ipc::Region& region) const;
  [[nodiscard]] Status map(const Call& call, const std::vector<Descriptor>& descriptors,
                           const device::Memory& near, device::kernel::Direct& direct);

  core::Communicator& comm_;
  std::vector<transport::cuda_ipc::Mapping*> mappings_;
};

}  // namespace weft::coll::gpu
