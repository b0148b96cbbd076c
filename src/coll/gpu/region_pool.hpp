// SPDX-License-Identifier: BSD-3-Clause
// RegionPool: the GPU memory regions into which other ranks push in collectives (memory of device/pool.hpp).
// A region is leased to one communicator at a time and freed at MPI_Finalize. Threading: under the instance
// lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/instance.hpp"
#include "device/memory.hpp"
#include "device/pool.hpp"

namespace weft::coll::gpu {

struct CollectiveRegion {
  device::Memory memory;  ///< the allocation
  uint64_t address = 0;   ///< of the region in it
  uint32_t epoch = 0;     ///< of the last call: no flag in the region is higher
  bool leased = true;
  bool beside_bounce = false;  ///< in the allocation of the bounce buffers (p2p)
};

class RegionPool final : public core::RetainedState, public device::ScratchCache {
 public:
  explicit RegionPool(core::Instance& instance) : instance_(instance) {}
  ~RegionPool() override;
  /// The pool of this process.
  [[nodiscard]] static RegionPool& of(core::Instance& instance);
  /// Leases a region in the context of `near`. Unleased regions of other contexts are freed if there is no
  /// memory. Peers of a region beside the bounce buffers must be told of it (p2p::announce_block).
  [[nodiscard]] Result<CollectiveRegion*> lease(const device::Memory& near);
  /// Frees an unleased region.
  [[nodiscard]] bool evict() override;

 private:
  [[nodiscard]] Result<CollectiveRegion> make(const device::Memory& near);
  core::Instance& instance_;
  std::vector<std::unique_ptr<CollectiveRegion>> regions_;
};

/// Bytes for Simple chunks in a region.
[[nodiscard]] size_t region_data_bytes();
/// Zeroes the part of a region that holds flags.
[[nodiscard]] Status clear(const CollectiveRegion& region);

}  // namespace weft::coll::gpu
