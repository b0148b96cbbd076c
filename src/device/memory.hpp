// SPDX-License-Identifier: BSD-3-Clause
// Memory kinds: what a buffer is, asked of the CUDA driver once a call. Nothing here creates a context or
// hooks an allocator. Threading: everything may be called from any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace weft::device {

/// Where a buffer lives. Host code may touch all kinds but cuda_device.
enum class MemoryKind : uint8_t { host, host_pinned, cuda_device, cuda_managed };
[[nodiscard]] const char* name(MemoryKind kind);  ///< "host", "host-pinned", "cuda-device", "cuda-managed"

/// Classification of one buffer, computed once a call and handed down.
struct Memory {
  MemoryKind kind = MemoryKind::host;
  bool legacy_ipc = false;  ///< cuMemAlloc memory: a legacy IPC handle can be made
  bool mapped = false;      ///< cuMemMap memory: `base` and `size` are those of a run of mappings
  bool staging = false;     ///< a pinned chunk of Weft's own
  int fault = 0;            ///< driver error of the query itself: no path may touch the buffer
  int device = -1;          ///< ordinal in this process; -1 for host
  void* context = nullptr;  ///< CUcontext; null for host, pool and cuMemMap memory
  void* home = nullptr;     ///< of pool and cuMemMap memory: the CUcontext that copies it here
  uint64_t buffer_id = 0;   ///< unique for the life of the process, never reused; of `mapped`: Weft's own
  uintptr_t base = 0;       ///< start of the allocation
  size_t size = 0;          ///< bytes of the allocation

  /// True when no CPU path may touch the buffer.
  [[nodiscard]] bool on_device() const { return kind == MemoryKind::cuda_device; }
  /// True when other processes may be able to map the buffer.
  [[nodiscard]] bool shareable() const { return legacy_ipc || mapped; }
  /// True when the driver knows the buffer.
  [[nodiscard]] bool known_to_driver() const { return kind != MemoryKind::host; }
  /// True when [p, p + n) lies inside the one allocation that was classified.
  [[nodiscard]] bool covers(const void* p, size_t n) const {
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= base && n <= size && at - base <= size - n;
  }
};

namespace detail {
extern std::atomic<bool> driver_open;
[[nodiscard]] Memory query(const void* p);
[[nodiscard]] bool plainly_host(const void* p);
}  // namespace detail

/// Opens the driver as the settings `cuda` and `cuda.driver` say; never calls cuInit, creates no context.
/// An error only for WEFT_CUDA=on without a usable driver, or an unusable WEFT_CUDA_DRIVER.
[[nodiscard]] Status open();
/// Destroys all streams, events and pinned memory of this layer; a context that is gone is tolerated.
void close();
/// The driver is open (the application may still not have initialised it).
[[nodiscard]] inline bool available() { return detail::driver_open.load(std::memory_order_relaxed); }
/// Why available() is false, in words; empty when it is true.
[[nodiscard]] std::string absence();

/// One plural driver query at most; host when there is no driver or the application has not called cuInit,
/// and for addresses on the caller's own stack.
[[nodiscard]] inline Memory classify(const void* p) {
  if (!available()) [[likely]]
    return {};
  return detail::query(p);
}

/// cuMemMap memory that was classified by a place in it, as the run of mappings that [first, first + n)
/// touches: one buffer can span several. As it was where they are too many (kMostDescriptors of ipc.hpp) or
/// there are gaps.
[[nodiscard]] Memory widened(const Memory& memory, const void* first, size_t n);

/// Whether it is host memory, found without a query: the caller's stack, the program's static data, its brk
/// heap. It may be registered, so this is for buffers whose pinning makes no difference.
[[nodiscard]] inline bool plainly_host(const void* p) { return !available() || detail::plainly_host(p); }

}  // namespace weft::device
