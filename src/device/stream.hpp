// SPDX-License-Identifier: BSD-3-Clause
// Operations in streams of the application: the enqueue kernel, collectives and copies. Non-blocking.
// Threading: any thread; the caller orders submissions to one stream.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/collective.hpp"
#include "device/kernel/enqueue.hpp"
#include "device/memory.hpp"

namespace weft::device {

struct UserStream {
  void* handle = nullptr;   ///< CUstream that work is put into
  void* context = nullptr;  ///< of the stream
  int device = -1;
  void* outer = nullptr;   ///< default stream of the application, which `handle` joins; null: `handle` itself
  void* before = nullptr;  ///< with `outer`: CUevents that join the streams before and after work
  void* after = nullptr;
  /// Placeholder memory of its context, for allocation and mapping calls.
  [[nodiscard]] Memory near() const {
    Memory memory;
    memory.kind = MemoryKind::cuda_device;
    memory.device = device;
    memory.context = context;
    return memory;
  }
};

/// Whether a handle names the legacy or the per-thread default stream.
[[nodiscard]] bool is_default_stream(void* handle);
/// Describes a default stream of the current context. No work can be put into it.
[[nodiscard]] Result<UserStream> default_stream(void* handle);
/// Describes a stream that the program has created, without preparing it. No work can be put into it yet.
[[nodiscard]] Result<UserStream> created_stream(void* handle);
/// Prepares the stream of a handle for enqueue(). Loads the kernel, which waits for running kernels.
/// Errc::unsupported, with the reason, without a driver or a kernel for the GPU.
[[nodiscard]] Result<UserStream> adopt_stream(void* handle);
/// Orders later work of `later` behind the work that the stream `earlier`, of the same context, has now.
/// Neither may be captured.
[[nodiscard]] Status join(const UserStream& later, void* earlier);
/// Launches the kernel of sends and receives. The GPU of the stream must be able to access all buffers.
[[nodiscard]] Status enqueue(const UserStream& stream, const kernel::enqueue::Batch& batch);
/// Prepares the stream for enqueue_collective(). Loads the kernels, which waits for running kernels.
[[nodiscard]] Status adopt_for_collectives(const UserStream& stream);
/// Launches the kernel of a collective.
[[nodiscard]] Status enqueue_collective(const UserStream& stream, const kernel::StreamCollective& call,
                                        Protocol protocol, uint32_t blocks, uint32_t threads);
/// Launches the kernel of a collective that moves blocks.
[[nodiscard]] Status enqueue_blocks(const UserStream& stream, const kernel::PairBlocks& call);
/// Copies n bytes in the stream; both sides must be known to the driver.
[[nodiscard]] Status enqueue_copy(const UserStream& stream, void* dst, const void* src, size_t n);
/// Whether the application is capturing the stream into a graph.
[[nodiscard]] Result<bool> capturing(const UserStream& stream);
/// Whether all work of the stream is complete. Not allowed during capture.
[[nodiscard]] Result<bool> idle(const UserStream& stream);

/// Allocates zeroed pinned host memory with the same address on host and GPU.
[[nodiscard]] Result<void*> allocate_pinned(const UserStream& stream, size_t bytes);
void free_pinned(const UserStream& stream, void* memory);

}  // namespace weft::device
