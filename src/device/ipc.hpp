// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC calls for transport/cuda_ipc, which owns the caches: legacy handles and file descriptors of
// cuMemMap memory. Threading: any thread. Open and close wait for the running kernels of the GPU: keep them
// off hot paths.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "device/info.hpp"
#include "device/memory.hpp"

namespace weft::device {

using IpcHandle = std::array<uint8_t, 64>;

/// Exports the handle of a whole allocation. Errc::unsupported, with the reason, for memory without a handle.
[[nodiscard]] Result<IpcHandle> export_ipc(const Memory& memory);
/// Maps another process's allocation of `size` bytes on the GPU `owner` into the context of `local`: any
/// Memory of a local device, or just {.device = ordinal}. Pass the result to copies. The GPU may be hidden
/// from this process by CUDA_VISIBLE_DEVICES: the result's `device` is then -1. Errc::again: an older mapping
/// occupies the address range. Errc::unsupported with cause and remedy: no local GPU, no peer access, a GPU
/// that a cgroup or container cuts off, MIG instances.
[[nodiscard]] Result<Memory> open_ipc(const IpcHandle& handle, size_t size, const GpuId& owner,
                                      const Memory& local);
/// File descriptor of one cuMemCreate allocation.
struct ShareableHandle {
  int fd;
  size_t size;  ///< mapped bytes
};
inline constexpr size_t kMaxShareableHandles = 64;  ///< per buffer
void close_all(std::span<const ShareableHandle> pieces);

/// Handles of cuMemMap memory in address order. The caller closes them; open handles keep the memory alive.
/// Errc::unsupported, with the reason, if one of the allocations was not created shareable.
[[nodiscard]] Result<std::vector<ShareableHandle>> export_shareable_handles(const Memory& memory);
/// Maps another process's allocations contiguously for the device of `local`, like open_ipc().
[[nodiscard]] Result<Memory> open_shareable_handles(std::span<const ShareableHandle> pieces,
                                                    const GpuId& owner, const Memory& local);
/// Unmaps a result of open_ipc() or open_shareable_handles(); succeeds if the context no longer exists.
[[nodiscard]] Status close_ipc(const Memory& mapped);
/// Whether an address is in a result of open_ipc() or open_shareable_handles() that is not closed.
[[nodiscard]] bool is_imported(uintptr_t address);
/// Whether the allocation classified as `memory` still exists at its address.
[[nodiscard]] bool alive(const Memory& memory);

}  // namespace weft::device
