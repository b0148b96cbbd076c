// SPDX-License-Identifier: BSD-3-Clause
// The kernel parameter of calls whose messages each pair of ranks divides by their sizes, in host and stream
// order (device/kernel/pair_blocks.hpp). Threading: under the instance lock.
#pragma once
#include <memory>

#include "coll/gpu/blocks.hpp"
#include "coll/gpu/plan.hpp"

namespace weft::coll::gpu {

/// Thread blocks for the messages between two of `ranks` ranks, at most; `max_blocks`: as in RegionCapacity.
/// 0: too few run at a time.
[[nodiscard]] uint32_t most_pair_blocks(uint32_t max_blocks, int ranks);
/// Returns the parameter, without regions, of a call with blocks without tables. The capacity is equal on all
/// ranks; its `max_blocks` allows most_pair_blocks().
[[nodiscard]] Result<std::unique_ptr<device::kernel::PairBlocks>> pair_blocks(const Call& call,
                                                                              const BlockShapes& shapes,
                                                                              const RegionCapacity& capacity);

}  // namespace weft::coll::gpu
