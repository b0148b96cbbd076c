// SPDX-License-Identifier: BSD-3-Clause
#include "base/copy.hpp"

#include <cstdint>

namespace weft {
#ifdef __x86_64__
namespace {

/// A vector at any address.
template <size_t kBytes>
struct Vector {
  using Type [[gnu::vector_size(kBytes), gnu::may_alias]] = char;
  using Unaligned [[gnu::aligned(1)]] = Type;
};

/// Writes whole vectors to aligned addresses; the first one and the last four at any address. Precondition:
/// the buffers do not overlap, n >= kMinVectorCopyBytes.
template <size_t kBytes>
[[gnu::always_inline]] inline void copy_vectors(char* to, const char* from, size_t n) {
  using V = typename Vector<kBytes>::Type;
  using Unaligned = typename Vector<kBytes>::Unaligned;
  constexpr size_t kVectors = 4, kStep = kVectors * kBytes;
  char* const last = to + n - kStep;
  const char* const last_from = from + n - kStep;
  *reinterpret_cast<Unaligned*>(to) = *reinterpret_cast<const Unaligned*>(from);
  const size_t head = kBytes - reinterpret_cast<uintptr_t>(to) % kBytes;
  for (to += head, from += head; to < last; to += kStep, from += kStep) {
    V values[kVectors];
    for (size_t i = 0; i < kVectors; ++i) values[i] = reinterpret_cast<const Unaligned*>(from)[i];
    for (size_t i = 0; i < kVectors; ++i) reinterpret_cast<V*>(to)[i] = values[i];
  }
  for (size_t i = 0; i < kVectors; ++i)
    reinterpret_cast<Unaligned*>(last)[i] = reinterpret_cast<const Unaligned*>(last_from)[i];
}

void copy_sse2(char* to, const char* from, size_t n) { copy_vectors<16>(to, from, n); }
[[gnu::target("avx2")]] void copy_avx2(char* to, const char* from, size_t n) {
  copy_vectors<32>(to, from, n);
}

/// Returns the largest copy by vectors, in bytes; 0: memmove() is never slow. Above 2 MiB memmove() may
/// bypass the caches. Since Zen 5, whose family is the first beside 19h (Zen 3 and 4) with AVX-512, `rep
/// movsb` is fast.
size_t max_vector_copy() {
  __builtin_cpu_init();
  if (!__builtin_cpu_is("amd") || !__builtin_cpu_supports("avx2")) return 0;
  const bool fast = __builtin_cpu_supports("avx512f") && !__builtin_cpu_is("amdfam19h");
  return fast ? 4 << 10 : 2 << 20;
}
const size_t g_max_vector_copy = max_vector_copy();

}  // namespace

// On processors of AMD, memmove() of glibc before 2.40 is `rep movsb` up to the size of the second level
// cache. On Zen 4 that takes 24 times as long if the destination is up to 63 bytes behind the source, modulo
// 4096, and 1.1 to 1.3 times if their addresses differ in the lower 6 bits. Above, it is a loop of wide
// vectors, which takes 1.2 times as long as one of 16 bytes if the data are in memory (one-sided-host.json).
void copy_large(void* to, const void* from, size_t n) {
  const auto target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  const bool overlap = target - source < n || source - target < n;
  if (n > g_max_vector_copy || overlap)
    std::memmove(to, from, n);
  else
    copy_by_vectors(to, from, n);
}

void copy_by_vectors(void* to, const void* from, size_t n) {
  constexpr size_t kNarrow = 32 << 10;  // from here on, caches limit the loop, not its instructions
  const auto distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (n >= kNarrow && distance % 16 == 0)
    copy_sse2(static_cast<char*>(to), static_cast<const char*>(from), n);
  else
    copy_avx2(static_cast<char*>(to), static_cast<const char*>(from), n);
}
#else
void copy_large(void* to, const void* from, size_t n) { std::memmove(to, from, n); }
#endif

}  // namespace weft
