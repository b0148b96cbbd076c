// SPDX-License-Identifier: BSD-3-Clause
// Memory kinds: classification of a buffer by one query of the CUDA driver per call. Creates no context and
// hooks no allocator. Threading: any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace weft::device {

/// Kind of memory of a buffer. Host code may access all kinds except cuda_device.
enum class MemoryKind : uint8_t { host, host_pinned, cuda_device, cuda_managed };
[[nodiscard]] const char* name(MemoryKind kind);  ///< "host", "host-pinned", "cuda-device", "cuda-managed"

/// Classification of one buffer, computed once per call and passed down.
struct Memory {
  MemoryKind kind = MemoryKind::host;
  bool legacy_ipc = false;  ///< cuMemAlloc memory: legacy IPC handles work
  bool mapped = false;      ///< cuMemMap memory: `base` and `size` span contiguous mappings
  bool staging = false;     ///< pinned staging chunk of Weft
  bool imported = false;    ///< memory of another process, mapped by Weft
  int fault = 0;            ///< driver error of the query: no path may access the buffer
  int device = -1;          ///< ordinal in this process; -1: host, or another process's GPU, hidden here
  void* context = nullptr;  ///< CUcontext; null for host, pool and cuMemMap memory
  void* home = nullptr;     ///< pool and cuMemMap memory: CUcontext for its copies
  uint64_t buffer_id = 0;   ///< unique in the process, never reused; assigned by Weft if `mapped`
  uintptr_t base = 0;       ///< start of the allocation
  size_t size = 0;          ///< bytes of the allocation

  /// Whether the CPU cannot access the buffer.
  [[nodiscard]] bool on_device() const { return kind == MemoryKind::cuda_device; }
  /// Whether other processes may be able to map the buffer.
  [[nodiscard]] bool shareable() const { return legacy_ipc || mapped; }
  /// Whether the driver knows the buffer.
  [[nodiscard]] bool known_to_driver() const { return kind != MemoryKind::host; }
  /// Whether [p, p + n) lies inside the classified allocation.
  [[nodiscard]] bool covers(const void* p, size_t n) const {
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= base && n <= size && at - base <= size - n;
  }
};

namespace detail {
extern std::atomic<bool> driver_open;
/// The GPU allocation that a query has found last. It may have been freed since.
extern std::atomic<uintptr_t> recent_base;
extern std::atomic<size_t> recent_size;
enum class Copies : bool { finish, leave };
[[nodiscard]] Memory query(const void* p, Copies copies);
[[nodiscard]] bool host_without_query(const void* p);
}  // namespace detail

/// Opens the driver selected by the settings `cuda` and `cuda.driver`. Never calls cuInit, creates no
/// context. Fails only for WEFT_CUDA=on without a usable driver, or an unusable WEFT_CUDA_DRIVER.
[[nodiscard]] Status open();
/// Destroys all streams, events and pinned memory of this layer. Tolerates destroyed contexts.
void close();
/// Whether the driver is open. The application may not have initialised it yet.
[[nodiscard]] inline bool available() { return detail::driver_open.load(std::memory_order_relaxed); }
/// Reason why available() is false; empty if true.
[[nodiscard]] std::string absence();

/// Classifies a buffer with one cuPointerGetAttributes, or two if the memory differs in kind from that of the
/// last call. Waits for copies of the application that have returned before they are done
/// (cuda::finish_memops()). Returns host without a driver, before cuInit of the application, and for
/// addresses on the caller's stack.
[[nodiscard]] inline Memory classify(const void* p) {
  if (!available()) [[likely]]
    return {};
  return detail::query(p, detail::Copies::finish);
}
/// The same without a wait, for work that runs in the order of the application's stream.
[[nodiscard]] inline Memory classify_in_stream(const void* p) {
  if (!available()) return {};
  return detail::query(p, detail::Copies::leave);
}

/// Extends a classification of cuMemMap memory to all mappings that [first, first + n) overlaps, since one
/// buffer can span several. Returns `memory` unchanged if there are gaps or more than kMaxShareableHandles
/// mappings (ipc.hpp).
[[nodiscard]] Memory widened(const Memory& memory, const void* first, size_t n);

/// Whether `p` is host memory, determined without a query: the caller's stack, static data of the program,
/// the brk heap, and all memory before the application has initialised CUDA. The memory may be registered:
/// use only if pinning makes no difference.
[[nodiscard]] inline bool host_without_query(const void* p) {
  if (!available()) return true;
  const uintptr_t at = reinterpret_cast<uintptr_t>(p) - detail::recent_base.load(std::memory_order_relaxed);
  return at >= detail::recent_size.load(std::memory_order_relaxed) && detail::host_without_query(p);
}

}  // namespace weft::device
