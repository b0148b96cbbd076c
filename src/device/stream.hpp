// SPDX-License-Identifier: BSD-3-Clause
// Streams of the application's, and the little that Weft puts into them: the enqueue kernel and copies.
// Nothing here waits. Threading: any thread; submissions to one stream are ordered by the caller.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/collective.hpp"
#include "device/kernel/enqueue.hpp"
#include "device/memory.hpp"

namespace weft::device {

struct UserStream {
  void* handle = nullptr;   ///< CUstream
  void* context = nullptr;  ///< that it belongs to
  int device = -1;
  /// Memory of its context, for calls that ask where to allocate or map.
  [[nodiscard]] Memory near() const {
    Memory memory;
    memory.kind = MemoryKind::cuda_device;
    memory.device = device;
    memory.context = context;
    return memory;
  }
};

/// The stream of a handle, ready for enqueue(): its kernel is loaded, which waits for running kernels.
/// Errc::unsupported, with the reason, when there is no driver or no kernel for the GPU, and for default
/// streams.
[[nodiscard]] Result<UserStream> adopt_stream(void* handle);
/// Launches the kernel of sends and receives. Its operations' memory must be visible to the stream's GPU.
[[nodiscard]] Status enqueue(const UserStream& stream, const kernel::enqueue::Batch& batch);
/// Makes the stream ready for enqueue_collective(): its kernels are loaded, which waits for running ones.
[[nodiscard]] Status adopt_for_collectives(const UserStream& stream);
/// Launches the kernel of a collective.
[[nodiscard]] Status enqueue_collective(const UserStream& stream, const kernel::StreamCollective& call,
                                        Wire wire, uint32_t blocks, uint32_t threads);
/// Copies n bytes in the stream; both sides are known to the driver.
[[nodiscard]] Status enqueue_copy(const UserStream& stream, void* dst, const void* src, size_t n);
/// Whether the application is capturing the stream into a graph.
[[nodiscard]] Result<bool> capturing(const UserStream& stream);
/// Whether everything in the stream is done. Not while it is captured.
[[nodiscard]] Result<bool> idle(const UserStream& stream);

/// Zeroed pinned host memory, seen by host and GPU at the same address; null for memory that cannot be had.
[[nodiscard]] Result<void*> allocate_pinned(const UserStream& stream, size_t bytes);
void free_pinned(const UserStream& stream, void* memory);

}  // namespace weft::device
