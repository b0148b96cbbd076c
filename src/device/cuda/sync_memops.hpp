// SPDX-License-Identifier: BSD-3-Clause
// Copies and fills of the application that return before they are done: cudaMemcpy from pageable host memory
// and between GPU memory, cudaMemset. A peer that reads or writes the buffer meanwhile would meet old bytes.
#pragma once
#include "device/memory.hpp"

namespace weft::device::cuda {

/// Waits for such copies of the allocation of `p`, and sees that later ones wait themselves where the driver
/// can: by CU_POINTER_ATTRIBUTE_SYNC_MEMOPS (CUDA driver API, "API synchronization behavior"), which waits
/// for copies under way. Memory of cuMemMap is refused that attribute, and copies of pool memory
/// ignore it: for these, every call waits until the default stream is idle, for a limited time, since a
/// kernel in it may wait for a message. The same holds where the driver refuses the attribute. No effect with
/// gpu.sync_memops=off.
void finish_memops(const Memory& memory, const void* p);
/// From now on finish_memops() has no effect in this process: its default stream waits for calls in stream
/// order, and a wait for it would never end.
void leave_memops();

}  // namespace weft::device::cuda
