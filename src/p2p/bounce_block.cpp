// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/bounce_block.hpp"

#include <utility>

#include "p2p/engine/engine.hpp"

namespace weft::p2p {

std::optional<RegionBesideBounce> take_region_beside_bounce(core::Instance& instance,
                                                            const device::Memory& near) {
  auto arena = engine_of(instance).bounce_pool.arena(near);
  if (!arena || (*arena)->region == 0) return std::nullopt;
  return RegionBesideBounce{(*arena)->memory, std::exchange((*arena)->region, 0)};
}

void announce_block(core::Instance& instance, const device::Memory& block, core::ProcessId to) {
  (void)engine_of(instance).regions.send(block, to);
}

}  // namespace weft::p2p
