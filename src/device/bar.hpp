// SPDX-License-Identifier: BSD-3-Clause
// The BAR path: CPU loads and stores on small ranges of GPU memory, through mappings of gdrcopy. Used only if
// library and kernel module are present and a test transfer has succeeded. Threading: any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/memory.hpp"

namespace weft::device {

/// Largest transfers in bytes by the BAR path. Reads are slow: the CPU waits for each word.
inline constexpr size_t kMaxBarRead = 256, kMaxBarWrite = size_t{8} << 10;
/// Returns whether the path works on this machine.
[[nodiscard]] bool bar_ready();

/// Reads or writes n bytes of one allocation. Returns false, without any effect, if the path cannot access
/// the range. Written data is visible to every later kernel and copy.
[[nodiscard]] bool bar_read(const void* from, const Memory& memory, void* to, size_t n);
[[nodiscard]] bool bar_write(void* to, const Memory& memory, const void* from, size_t n);

}  // namespace weft::device
