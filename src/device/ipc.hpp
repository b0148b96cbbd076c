// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC: the driver's part of transport/cuda_ipc, which keeps the caches. Legacy handles, one call each,
// and file descriptors of cuMemMap memory. Threading: any thread; open and close wait for the GPU's running
// kernels, so keep them off hot paths.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
/// What stands for one of cuMemCreate's allocations.
struct Descriptor {
  int fd;
  size_t size;  ///< bytes of it that are mapped
};
inline constexpr size_t kMostDescriptors = 64;  ///< of one buffer
void close_all(std::span<const Descriptor> pieces);

/// The descriptors of cuMemMap memory in order, the caller's to close; they keep the memory alive.
/// Errc::unsupported, with the reason, where one of the allocations was not created shareable.
[[nodiscard]] Result<std::vector<Descriptor>> export_descriptors(const Memory& memory);
/// Maps another process's allocations side by side, for the device of `local`; as open_ipc().
[[nodiscard]] Result<Memory> open_descriptors(std::span<const Descriptor> pieces, int device,
                                              const Memory& local);
/// Unmaps what open_ipc() or open_descriptors() returned; a context that is gone counts as success.
[[nodiscard]] Status close_ipc(const Memory& mapped);
/// True while the allocation that was classified as `memory` still exists at its address.
[[nodiscard]] bool alive(const Memory& memory);

/// A little device memory of our own (for proving a mapping). Freed by free_scratch().
[[nodiscard]] Result<Memory> allocate_scratch(const Memory& near, size_t bytes);
void free_scratch(const Memory& scratch);

}  // namespace weft::device
