// SPDX-License-Identifier: BSD-3-Clause
// Copies between mapped pages of files and memory of the program. The processor decides which way is the
// fastest: measured by Fastest. Threading: any thread.
#pragma once
#include <cstddef>

namespace weft::io {

enum class CopyWay {
  cached,  ///< memcpy
  lines,   ///< stores that bypass the caches, in order
  pages,   ///< the same, four pages at a time: prefetchers stop at the end of a page
};
inline constexpr size_t kCopyWays = 3;

void copy(CopyWay way, std::byte* to, const std::byte* from, size_t n);

}  // namespace weft::io
