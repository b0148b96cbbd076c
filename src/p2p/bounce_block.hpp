// SPDX-License-Identifier: BSD-3-Clause
// The allocation of a GPU's bounce buffers, which peers map once, has memory for a region of collectives
// beside them. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <optional>

#include "core/instance.hpp"
#include "device/memory.hpp"

namespace weft::p2p {

/// Memory of device::collective_region_bytes() bytes in the allocation of bounce buffers.
struct RegionBesideBounce {
  device::Memory block;  ///< the allocation
  uint64_t address;      ///< in it
};
/// Returns the memory beside the bounce buffers of the GPU of `near`, once; nullopt: taken, or there is none.
[[nodiscard]] std::optional<RegionBesideBounce> take_region_beside_bounce(core::Instance& instance,
                                                                          const device::Memory& near);
/// Sends a process of this host the region of such an allocation, unless it has it. To be called before
/// anything else names it to that process.
void announce_block(core::Instance& instance, const device::Memory& block, core::ProcessId to);

}  // namespace weft::p2p
