// SPDX-License-Identifier: BSD-3-Clause
// Copies: every byte of the destination and none beside it, at all alignments and around each change of
// method.
#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

constexpr size_t kGuard = 64, kAlignments = 65;

std::vector<unsigned char> pattern(size_t n, unsigned first) {
  std::vector<unsigned char> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<unsigned char>(first + i * 7 + i / 251);
  return bytes;
}

using Copy = void (*)(void*, const void*, size_t);

void check(size_t n, size_t to, size_t from, Copy copy = weft::copy_bytes) {
  const std::vector<unsigned char> source = pattern(from + n, 1);
  std::vector<unsigned char> target = pattern(kGuard + to + n + kGuard, 100), expected = target;
  std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), n,
              expected.begin() + static_cast<std::ptrdiff_t>(kGuard + to));
  copy(target.data() + kGuard + to, source.data() + from, n);
  ASSERT_TRUE(target == expected) << n << " bytes, alignments " << to << " and " << from;
}

TEST(Copy, CopiesAllSizesAtAllAlignments) {
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{100}, weft::kMinVectorCopyBytes - 1})
    check(n, 3, 5);
  for (size_t i = 0; i < kAlignments; ++i) {
    check(weft::kMinVectorCopyBytes + i, i, 0);
    check(weft::kMinVectorCopyBytes + i, 0, i);
    check(weft::kMinVectorCopyBytes + 131, i, (i * 5 + 3) % kAlignments);
    check((size_t{32} << 10) + i, i, i);
    check((size_t{32} << 10) - 1, i, 16);
    check((size_t{64} << 10) + 17 * i, i + 16, i);
  }
  check(size_t{1} << 20, 0, 0);
  check((size_t{2} << 20) + 1, 1, 0);
}

#ifdef __x86_64__
TEST(Copy, LoopsOfVectorsCopyAllSizesAtAllAlignments) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  for (size_t i = 0; i < kAlignments; ++i)
    for (const size_t n :
         {weft::kMinVectorCopyBytes + i, (size_t{32} << 10) + i, (size_t{64} << 10) + 17 * i}) {
      check(n, i, 0, weft::copy_by_vectors);
      check(n, 0, i, weft::copy_by_vectors);
      check(n, i, i, weft::copy_by_vectors);
      check(n, i, (i * 5 + 3) % kAlignments, weft::copy_by_vectors);
    }
}
#endif

TEST(Copy, BuffersMayOverlap) {
  for (const size_t n : {size_t{8}, size_t{100}, size_t{4096}, size_t{40000}})
    for (const size_t distance : {size_t{1}, n / 3, n - 1, n}) {
      const std::vector<unsigned char> all = pattern(2 * n, 1);
      for (const bool up : {true, false}) {
        std::vector<unsigned char> bytes = all, expected = all;
        const size_t to = up ? distance : 0, from = up ? 0 : distance;
        for (size_t i = 0; i < n; ++i) expected[to + i] = all[from + i];
        weft::copy_bytes(bytes.data() + to, bytes.data() + from, n);
        ASSERT_TRUE(bytes == expected) << n << " bytes, distance " << distance << (up ? " up" : " down");
      }
    }
}

}  // namespace
