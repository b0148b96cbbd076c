// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/region_pool.hpp"

#include <algorithm>

#include "base/cold.hpp"
#include "device/collective.hpp"
#include "device/copy.hpp"
#include "device/ipc.hpp"
#include "p2p/bounce_block.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::RegionLayout;

/// Memory of its own, or in the allocation of the bounce buffers.
void free_own(const CollectiveRegion& region) {
  if (!region.beside_bounce) device::free_scratch(region.memory);
}

}  // namespace

size_t region_data_bytes() { return device::collective_region_bytes() - RegionLayout::kClearedBytes; }

RegionPool::~RegionPool() {
  for (const auto& region : regions_) free_own(*region);
}

RegionPool& RegionPool::of(core::Instance& instance) {
  if (instance.gpu_regions == nullptr) instance.gpu_regions = std::make_unique<RegionPool>(instance);
  return static_cast<RegionPool&>(*instance.gpu_regions);
}

Result<CollectiveRegion*> RegionPool::lease(const device::Memory& near) {
  for (const auto& region : regions_) {
    const device::Memory& memory = region->memory;
    if (region->leased || memory.device != near.device ||
        (near.context != nullptr && near.context != memory.context) || !device::alive(memory))
      continue;
    region->leased = true;
    return region.get();
  }
  auto made = make(near);
  if (!made) return std::move(made).error();
  regions_.push_back(std::make_unique<CollectiveRegion>(*made));
  const cold::Timer timer(cold::Part::regions);
  if (Status cleared = clear(*regions_.back()); !cleared) {
    free_own(*regions_.back());
    regions_.pop_back();
    return std::move(cleared).error();
  }
  return regions_.back().get();
}

/// The first region of a GPU lies beside its bounce buffers, where peers have mapped it already.
Result<CollectiveRegion> RegionPool::make(const device::Memory& near) {
  if (const auto beside = p2p::take_region_beside_bounce(instance_, near))
    return CollectiveRegion{.memory = beside->block, .address = beside->address, .beside_bounce = true};
  const cold::Timer timer(cold::Part::regions);
  const size_t bytes = device::collective_region_bytes();
  auto memory = device::allocate_scratch(near, bytes);
  while (!memory && evict()) memory = device::allocate_scratch(near, bytes);
  if (!memory) return std::move(memory).error();
  return CollectiveRegion{.memory = *memory, .address = memory->base};
}

bool RegionPool::evict() {
  const auto at = std::find_if(regions_.begin(), regions_.end(),
                               [](const auto& it) { return !it->leased && !it->beside_bounce; });
  if (at == regions_.end()) return false;
  device::free_scratch((*at)->memory);
  regions_.erase(at);
  return true;
}

// Zeros from the host, doubled on the GPU.
Status clear(const CollectiveRegion& region) {
  constexpr size_t kFromHost = 64 << 10;
  const std::vector<std::byte> zeros(kFromHost);
  auto* const begin = reinterpret_cast<std::byte*>(region.address);
  WEFT_TRY(device::copy(begin, region.memory, zeros.data(), device::Memory{}, kFromHost));
  for (size_t cleared = kFromHost; cleared < RegionLayout::kClearedBytes; cleared *= 2)
    WEFT_TRY(device::copy(begin + cleared, region.memory, begin, region.memory,
                          std::min(cleared, RegionLayout::kClearedBytes - cleared)));
  return {};
}

}  // namespace weft::coll::gpu
