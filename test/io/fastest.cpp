// SPDX-License-Identifier: BSD-3-Clause
// The choice between ways by measured times, for each file apart.
#include "io/backend/fastest.hpp"

#include <gtest/gtest.h>

#include <array>

#include "io/backend/target.hpp"

namespace {

using weft::io::Fastest;

constexpr int64_t kBytes = int64_t{1} << 20;
constexpr uint32_t kTrialInterval = Fastest<3>::kTrialInterval;

/// Does `turns` pieces of work, of which way `i` takes ns[i], and counts the ways.
template <size_t kWays>
std::array<int, kWays> work(Fastest<kWays>& ways, const std::array<uint64_t, kWays>& ns, uint32_t turns) {
  std::array<int, kWays> used{};
  for (uint32_t i = 0; i < turns; ++i) {
    const size_t way = ways.next();
    ++used[way];
    ways.add(way, kBytes, ns[way]);
  }
  return used;
}

TEST(Fastest, MeasuresEachWayAndUsesTheFastest) {
  for (size_t fast = 0; fast < 3; ++fast) {
    Fastest<3> ways;
    std::array<uint64_t, 3> ns{300000, 300000, 300000};
    ns[fast] = 200000;
    EXPECT_EQ(ways.best(), 0U);
    const auto used = work(ways, ns, kTrialInterval);
    EXPECT_EQ(ways.best(), fast);
    for (size_t way = 0; way < 3; ++way)
      EXPECT_TRUE(way == fast || used[way] == static_cast<int>(Fastest<3>::kFirstTrials)) << way;
  }
}

TEST(Fastest, FollowsTimesThatChange) {
  Fastest<2> ways;
  (void)work(ways, {100000, 200000}, kTrialInterval);
  EXPECT_EQ(ways.best(), 0U);
  (void)work(ways, {400000, 200000}, 20 * kTrialInterval);
  EXPECT_EQ(ways.best(), 1U);
}

TEST(Fastest, IgnoresALateThread) {
  Fastest<2> ways;
  (void)work(ways, {100000, 110000}, kTrialInterval);
  ways.add(0, kBytes, 1000000000);
  ways.add(0, kBytes, 100000);
  EXPECT_EQ(ways.best(), 0U);
}

TEST(Fastest, FilesChooseApart) {
  weft::io::Target one, other;
  (void)work(one.first_reads, {100000, 200000}, kTrialInterval);
  (void)work(other.first_reads, {200000, 100000}, kTrialInterval);
  (void)work(one.first_writes, {200000, 100000}, kTrialInterval);
  EXPECT_EQ(one.first_reads.best(), 0U);
  EXPECT_EQ(other.first_reads.best(), 1U);
  EXPECT_EQ(one.first_writes.best(), 1U);
  EXPECT_EQ(other.first_writes.best(), 0U);
}

}  // namespace
