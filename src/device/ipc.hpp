// SPDX-License-Identifier: BSD-3-Clause
// Legacy CUDA IPC, one call each: the driver's part of transport/cuda_ipc, which keeps the caches.
// Threading: any thread; open and close wait for the GPU's running kernels, so keep them off hot paths.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

using IpcHandle = std::array<uint8_t, 64>;

/// Makes the handle of a whole allocation. Errc::unsupported, with the reason, for memory that has none.
[[nodiscard]] Result<IpcHandle> export_ipc(const Memory& memory);
/// Maps another process's allocation of `size` bytes, which lies on device `device` (its ordinal here), into
/// the context of `local`: any Memory of a local device, or just {.device = ordinal}. The result is what
/// copies are given; its context is the one that opened it. Errc::again: something older is mapped in its
/// place.
[[nodiscard]] Result<Memory> open_ipc(const IpcHandle& handle, size_t size, int device, const Memory& local);
/// Unmaps what open_ipc() returned; a context that is gone counts as success.
[[nodiscard]] Status close_ipc(const Memory& mapped);
/// True while the allocation that was classified as `memory` still exists at its address.
[[nodiscard]] bool alive(const Memory& memory);

/// A little device memory of our own (for proving a mapping). Freed by free_scratch().
[[nodiscard]] Result<Memory> allocate_scratch(const Memory& near, size_t bytes);
void free_scratch(const Memory& scratch);

}  // namespace weft::device
