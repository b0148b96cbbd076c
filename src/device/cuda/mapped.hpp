// SPDX-License-Identifier: BSD-3-Clause
// cuMemCreate and cuMemMap memory: contiguous runs of mappings.
#pragma once
#include <cstdint>

#include "device/cuda/driver.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// If `p` is cuMemMap memory, sets `memory` to the mapping that contains `p`, with Weft's id. Other memory,
/// e.g. of pools, stays unchanged.
void describe_mapped(Memory& memory, const void* p);
/// Whether the mappings of `memory` still exist unchanged.
[[nodiscard]] bool still_mapped(const Memory& memory);
/// Records memory of another process that has been mapped, until close_ipc().
void note_imported(Memory& mapped);
/// Unmaps a result of open_shareable_handles().
[[nodiscard]] Status unmap(const Memory& mapped);

}  // namespace weft::device::cuda
