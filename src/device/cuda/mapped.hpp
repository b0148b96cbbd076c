// SPDX-License-Identifier: BSD-3-Clause
// Memory of cuMemCreate and cuMemMap, as the driver describes it: a run of mappings side by side.
#pragma once
#include <cstdint>

#include "device/cuda/driver.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// Makes `memory`, which was queried at `p`, the one mapping that `p` lies in, with Weft's number of it,
/// where it is memory of cuMemMap; other memory (of pools) stays as it is.
void describe_mapped(Memory& memory, const void* p);
/// Whether exactly the mappings that `memory` was described by are still there.
[[nodiscard]] bool mapped_still(const Memory& memory);
/// Unmaps what open_descriptors() returned.
[[nodiscard]] Status unmap(const Memory& mapped);

}  // namespace weft::device::cuda
