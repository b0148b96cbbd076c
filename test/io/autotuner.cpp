// SPDX-License-Identifier: BSD-3-Clause
// The choice between methods by measured times, for each file apart.
#include "io/backend/autotuner.hpp"

#include <gtest/gtest.h>

#include <array>

#include "io/backend/target.hpp"

namespace {

using weft::io::Autotuner;

constexpr int64_t kBytes = int64_t{1} << 20;
constexpr uint32_t kTrialInterval = Autotuner<3>::kTrialInterval;

/// Does `turns` pieces of work, of which method `i` takes ns[i], and counts the methods.
template <size_t kMethods>
std::array<int, kMethods> work(Autotuner<kMethods>& methods, const std::array<uint64_t, kMethods>& ns,
                               uint32_t turns) {
  std::array<int, kMethods> used{};
  for (uint32_t i = 0; i < turns; ++i) {
    const size_t method = methods.next();
    ++used[method];
    methods.add(method, kBytes, ns[method]);
  }
  return used;
}

TEST(Autotuner, MeasuresEachWayAndUsesTheFastest) {
  for (size_t fast = 0; fast < 3; ++fast) {
    Autotuner<3> methods;
    std::array<uint64_t, 3> ns{300000, 300000, 300000};
    ns[fast] = 200000;
    EXPECT_EQ(methods.best(), 0U);
    const auto used = work(methods, ns, kTrialInterval);
    EXPECT_EQ(methods.best(), fast);
    for (size_t method = 0; method < 3; ++method)
      EXPECT_TRUE(method == fast || used[method] == static_cast<int>(Autotuner<3>::kFirstTrials)) << method;
  }
}

TEST(Autotuner, FollowsTimesThatChange) {
  Autotuner<2> methods;
  (void)work(methods, {100000, 200000}, kTrialInterval);
  EXPECT_EQ(methods.best(), 0U);
  (void)work(methods, {400000, 200000}, 20 * kTrialInterval);
  EXPECT_EQ(methods.best(), 1U);
}

TEST(Autotuner, IgnoresALateThread) {
  Autotuner<2> methods;
  (void)work(methods, {100000, 110000}, kTrialInterval);
  methods.add(0, kBytes, 1000000000);
  methods.add(0, kBytes, 100000);
  EXPECT_EQ(methods.best(), 0U);
}

TEST(Autotuner, FilesChooseApart) {
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
