// SPDX-License-Identifier: BSD-3-Clause
// Copies of host memory, for sizes and processors where memmove() is slow.
#pragma once
#include <cstddef>
#include <cstring>

namespace weft {

inline constexpr size_t kMinVectorCopyBytes = 2 << 10;

/// memmove() of at least kMinVectorCopyBytes.
void copy_large(void* to, const void* from, size_t n);

#ifdef __x86_64__
/// The loops of vectors that copy_large() uses on some processors. Precondition: the processor has AVX2, the
/// buffers do not overlap, n >= kMinVectorCopyBytes.
void copy_by_vectors(void* to, const void* from, size_t n);
#endif

/// memmove(). One element of 4 or 8 bytes is one access.
inline void copy_bytes(void* to, const void* from, size_t n) {
  if (n == 8) [[likely]]
    std::memcpy(to, from, 8);
  else if (n == 4)
    std::memcpy(to, from, 4);
  else if (n < kMinVectorCopyBytes)
    std::memmove(to, from, n);
  else
    copy_large(to, from, n);
}

}  // namespace weft
