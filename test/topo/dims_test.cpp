// SPDX-License-Identifier: BSD-3-Clause
// MPI_Dims_create: compared with an exhaustive search for small sizes; run time for hard sizes.
#include "topo/dims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <vector>

namespace {

using weft::Errc;
using weft::topo::balance;

/// Smaller spread; on ties a larger smallest factor, then a larger second smallest factor, etc.
bool more_balanced(const std::vector<int>& a, const std::vector<int>& b) {
  const int first = a.front() - a.back(), second = b.front() - b.back();
  if (first != second) return first < second;
  return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
}

/// The best non-increasing factorization, by exhaustive search.
std::vector<int> search(int size, size_t n) {
  std::vector<int> best, current;
  const std::function<void(int, int)> go = [&](int rest, int most) {
    if (current.size() == n) {
      if (rest == 1 && (best.empty() || more_balanced(current, best))) best = current;
      return;
    }
    for (int factor = 1; factor <= most; ++factor) {
      if (rest % factor != 0) continue;
      current.push_back(factor);
      go(rest / factor, factor);
      current.pop_back();
    }
  };
  go(size, size);
  return best;
}

TEST(Dims, AreTheMostBalanced) {
  for (int size = 1; size <= 360; ++size)
    for (size_t n = 1; n <= 4; ++n) {
      std::vector<int> dims(n);
      ASSERT_TRUE(balance(size, dims).ok());
      EXPECT_EQ(dims, search(size, n)) << size << " in " << n;
    }
}

TEST(Dims, OfAHardCase) {  // 20 18 14 has the same spread
  std::vector<int> dims(3);
  ASSERT_TRUE(balance(5040, dims).ok());
  EXPECT_EQ(dims, (std::vector<int>{21, 16, 15}));
}

TEST(Dims, KeepGivenDimensions) {
  std::vector<int> dims{2, 3, 0};
  ASSERT_TRUE(balance(6, dims).ok());
  EXPECT_EQ(dims, (std::vector<int>{2, 3, 1}));
  dims = {0, 3, 0};
  ASSERT_TRUE(balance(24, dims).ok());
  EXPECT_EQ(dims, (std::vector<int>{4, 3, 2}));
  dims = {6};
  EXPECT_TRUE(balance(6, dims).ok());
  EXPECT_TRUE(balance(1, {}).ok());
}

TEST(Dims, RejectSizesThatDoNotDivide) {
  for (std::vector<int> dims : {std::vector<int>{4, 0}, {5}, {-2, 0}, {3, 4}, {1 << 30, 1 << 30, 1 << 30}}) {
    const auto status = balance(6, dims);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Errc::dims);
  }
}

TEST(Dims, AreComputedQuickly) {
  const auto begin = std::chrono::steady_clock::now();
  for (const int size : {2147483647, 1 << 30, 223092870, 2095133040, 1396755360, 735134400})
    for (size_t n = 1; n <= 12; ++n) {
      std::vector<int> dims(n);
      ASSERT_TRUE(balance(size, dims).ok());
      EXPECT_EQ(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()), size);
      EXPECT_TRUE(std::is_sorted(dims.rbegin(), dims.rend()));
    }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
