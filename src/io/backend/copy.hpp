// SPDX-License-Identifier: BSD-3-Clause
// Copies between mapped pages of files and memory of the program. The processor decides which method is the
// fastest: measured by Autotuner. Threading: any thread.
#pragma once
#include <cstddef>

namespace weft::io {

enum class CopyMethod {
  cached,  ///< memcpy
  lines,   ///< stores that bypass the caches, in order
  pages,   ///< the same, four pages at a time: prefetchers stop at the end of a page
};
inline constexpr size_t kCopyMethods = 3;

void copy(CopyMethod method, std::byte* to, const std::byte* from, size_t n);

}  // namespace weft::io
