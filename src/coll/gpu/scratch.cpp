// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/scratch.hpp"

#include <algorithm>
#include <string>

#include "base/config.hpp"
#include "device/copy.hpp"
#include "device/ipc.hpp"
#include "device/kernel/collective.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::Area;

config::Size capacity{"coll.device_scratch", 320 << 20, 0, size_t{64} << 30,
                      "GPU memory into which other ranks write in collectives on device buffers, of all "
                      "communicators together; allocated on first use"};
config::Size data{
    "coll.device_area", 22 << 19, 2 << 20, size_t{1} << 30,
    "bytes of it for the large messages of one communicator; 7 MiB more are for the small ones"};
config::Size large_data{"coll.device_area_large", 22 << 19, 2 << 20, size_t{1} << 30,
                        "the same once a communicator has had a call of coll.device_large, if it is more"};
config::Size large{
    "coll.device_large", 4 << 20, 0, size_t{1} << 40,
    "device buffers: bytes of a vector or block from which a communicator takes the larger area"};

}  // namespace

size_t area_data() { return data; }
size_t large_area_data() { return large_data; }
bool wants_large_area(uint64_t largest) { return largest >= large && large_data > data; }

Scratch::~Scratch() {
  for (const auto& area : areas_) device::free_scratch(area->memory);
}

Scratch& Scratch::of(core::Instance& instance) {
  if (instance.gpu_scratch == nullptr) instance.gpu_scratch = std::make_unique<Scratch>();
  return static_cast<Scratch&>(*instance.gpu_scratch);
}

Result<ScratchArea*> Scratch::lease(const device::Memory& near, size_t pieces) {
  const size_t bytes = Area::kCleared + pieces;
  for (const auto& area : areas_) {
    const device::Memory& memory = area->memory;
    if (area->leased || memory.size != bytes || memory.device != near.device ||
        (near.context != nullptr && near.context != memory.context) || !device::alive(memory))
      continue;
    area->leased = true;
    return area.get();
  }
  WEFT_TRY(make_room(bytes));
  auto memory = device::allocate_scratch(near, bytes);
  if (!memory) return std::move(memory).error();
  auto area = std::make_unique<ScratchArea>();
  area->memory = *memory;
  area->leased = true;
  areas_.push_back(std::move(area));
  if (Status cleared = clear(*areas_.back()); !cleared) {
    device::free_scratch(areas_.back()->memory);
    areas_.pop_back();
    return std::move(cleared).error();
  }
  return areas_.back().get();
}

/// Areas that nobody uses go first.
Status Scratch::make_room(size_t bytes) {
  size_t used = bytes;
  for (const auto& area : areas_) used += area->memory.size;
  for (auto at = areas_.begin(); at != areas_.end() && used > capacity;) {
    if ((*at)->leased) {
      ++at;
      continue;
    }
    used -= (*at)->memory.size;
    device::free_scratch((*at)->memory);
    at = areas_.erase(at);
  }
  if (used <= capacity) return {};
  return Error(Errc::again, "all scratch for collectives is in use by other communicators (" +
                                std::to_string(areas_.size()) + "): raise WEFT_COLL_DEVICE_SCRATCH");
}

Status clear(const ScratchArea& area) {
  constexpr size_t kStep = 256 << 10;
  const std::vector<std::byte> zeros(kStep);
  for (size_t at = 0; at < Area::kCleared; at += kStep)
    WEFT_TRY(device::copy(reinterpret_cast<void*>(area.memory.base + at), area.memory, zeros.data(),
                          device::Memory{}, std::min(kStep, Area::kCleared - at)));
  return {};
}

}  // namespace weft::coll::gpu
