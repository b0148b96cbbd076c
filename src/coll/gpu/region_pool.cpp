// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/region_pool.hpp"

#include <algorithm>

#include "base/cold.hpp"
#include "base/config.hpp"
#include "device/copy.hpp"
#include "device/ipc.hpp"
#include "device/kernel/collective.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::RegionLayout;

config::Size data_bytes{"coll.gpu_region_bytes", 22 << 19, 2 << 20, size_t{1} << 30,
                        "Bytes in the region of a communicator for the Simple protocol; the LL and LL128 "
                        "parts take 7 MiB more. Larger regions allow larger chunks."};

}  // namespace

size_t region_data_bytes() { return data_bytes; }

RegionPool::~RegionPool() {
  for (const auto& region : regions_) device::free_scratch(region->memory);
}

RegionPool& RegionPool::of(core::Instance& instance) {
  if (instance.gpu_regions == nullptr) instance.gpu_regions = std::make_unique<RegionPool>();
  return static_cast<RegionPool&>(*instance.gpu_regions);
}

Result<CollectiveRegion*> RegionPool::lease(const device::Memory& near) {
  const size_t bytes = RegionLayout::kClearedBytes + data_bytes;
  for (const auto& region : regions_) {
    const device::Memory& memory = region->memory;
    if (region->leased || memory.size != bytes || memory.device != near.device ||
        (near.context != nullptr && near.context != memory.context) || !device::alive(memory))
      continue;
    region->leased = true;
    return region.get();
  }
  const cold::Timer timer(cold::Part::regions);
  auto memory = device::allocate_scratch(near, bytes);
  while (!memory && evict()) memory = device::allocate_scratch(near, bytes);
  if (!memory) return std::move(memory).error();
  auto region = std::make_unique<CollectiveRegion>();
  region->memory = *memory;
  region->leased = true;
  regions_.push_back(std::move(region));
  if (Status cleared = clear(*regions_.back()); !cleared) {
    device::free_scratch(regions_.back()->memory);
    regions_.pop_back();
    return std::move(cleared).error();
  }
  return regions_.back().get();
}

bool RegionPool::evict() {
  const auto at = std::find_if(regions_.begin(), regions_.end(), [](const auto& it) { return !it->leased; });
  if (at == regions_.end()) return false;
  device::free_scratch((*at)->memory);
  regions_.erase(at);
  return true;
}

Status clear(const CollectiveRegion& region) {
  constexpr size_t kStep = 256 << 10;
  const std::vector<std::byte> zeros(kStep);
  for (size_t at = 0; at < RegionLayout::kClearedBytes; at += kStep)
    WEFT_TRY(device::copy(reinterpret_cast<void*>(region.memory.base + at), region.memory, zeros.data(),
                          device::Memory{}, std::min(kStep, RegionLayout::kClearedBytes - at)));
  return {};
}

}  // namespace weft::coll::gpu
