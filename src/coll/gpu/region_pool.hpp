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
  device::Memory memory;
  uint32_t epoch = 0;  ///< of the last call: no flag in the region is higher
  bool leased = false;
};

class RegionPool final : public core::RetainedState, public device::ScratchCache {
 public:
  ~RegionPool() override;
  /// The pool of this process.
  [[nodiscard]] static RegionPool& of(core::Instance& instance);
  /// Leases a region in the context of `near`. Unleased regions of other contexts are freed if there is no
  /// memory.
  [[nodiscard]] Result<CollectiveRegion*> lease(const device::Memory& near);
  /// Frees an unleased region.
  [[nodiscard]] bool evict() override;

 private:
  std::vector<std::unique_ptr<CollectiveRegion>> regions_;
};

/// Bytes for Simple chunks in a region.
[[nodiscard]] size_t region_data_bytes();
/// Zeroes the part of a region that holds flags.
[[nodiscard]] Status clear(const CollectiveRegion& region);

}  // namespace weft::coll::gpu
