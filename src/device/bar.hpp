// SPDX-License-Identifier: BSD-3-Clause
// The BAR path: the CPU itself reads and writes small pieces of GPU memory, through mappings that gdrcopy
// makes. Only where its library and kernel module are there, and only after moving bytes has proved it.
// Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/memory.hpp"

namespace weft::device {

/// Largest pieces that go this way; 0: none does. Reads are slow: the CPU waits for each word.
struct BarLimits {
  size_t read = 0, write = 0;
};
[[nodiscard]] BarLimits bar_limits();

/// Reads and writes n bytes of one allocation. False: not possible for this piece, and nothing was done. What
/// was written is visible to every later kernel and copy.
[[nodiscard]] bool bar_read(const void* from, const Memory& memory, void* to, size_t n);
[[nodiscard]] bool bar_write(void* to, const Memory& memory, const void* from, size_t n);

struct BarCounters {
  uint64_t reads = 0, writes = 0, pinned = 0, unpinned = 0;
};
[[nodiscard]] BarCounters bar_counters();

}  // namespace weft::device
