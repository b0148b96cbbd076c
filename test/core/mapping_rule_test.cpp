// SPDX-License-Identifier: BSD-3-Clause
// The rule by which memory of other processes is mapped: bought when the accesses without the mapping have
// cost as much, by their own times; no sequence of accesses costs more than twice the best choice.
#include "core/mapping_rule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/config.hpp"
#include "transport/cuda_ipc/mapping_time.hpp"

namespace weft::core {
namespace {

using transport::cuda_ipc::MappingTime;
using Key = MappingRule::Key;

constexpr uint64_t kMappingNs = 1'000'000;

/// Reads the settings: WEFT_GPU_MAPPING=auto.
class Settings : public ::testing::Environment {
 public:
  void SetUp() override { ASSERT_TRUE(config::load().ok()); }
};
const auto* const kSettings = ::testing::AddGlobalTestEnvironment(new Settings);

TEST(MappingRule, BuysWhenTheOtherPathHasCostAsMuch) {
  MappingRule rule;
  const Key key{1, true, 7};
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(rule.pays(key, kMappingNs / 100, kMappingNs));
  EXPECT_FALSE(rule.bought(key));
  EXPECT_TRUE(rule.pays(key, kMappingNs / 100, kMappingNs));
  EXPECT_TRUE(rule.bought(key));
  EXPECT_TRUE(rule.pays(key, 0, kMappingNs)) << "a bought mapping stays bought";
}

TEST(MappingRule, OneLargeAccessPaysAtOnce) {
  MappingRule rule;
  EXPECT_TRUE(rule.pays({1, true, 7}, kMappingNs, kMappingNs));
  EXPECT_TRUE(rule.pays({1, true, 8}, MappingRule::kNoOtherPath, kMappingNs));
}

TEST(MappingRule, CountsEachAllocationPeerAndDirectionForItself) {
  MappingRule rule;
  EXPECT_TRUE(rule.pays({1, true, 7}, kMappingNs, kMappingNs));
  for (const Key key : {Key{2, true, 7}, Key{1, false, 7}, Key{1, true, 8}}) {
    EXPECT_FALSE(rule.bought(key));
    EXPECT_FALSE(rule.pays(key, kMappingNs / 2, kMappingNs));
  }
}

TEST(MappingRule, ForgetsAPeer) {
  MappingRule rule;
  EXPECT_TRUE(rule.pays({1, true, 7}, kMappingNs, kMappingNs));
  EXPECT_TRUE(rule.pays({2, true, 7}, kMappingNs, kMappingNs));
  rule.forget(1);
  EXPECT_FALSE(rule.bought({1, true, 7}));
  EXPECT_TRUE(rule.bought({2, true, 7}));
}

/// Memory that comes and goes leaves entries, which do not grow without bound; a mapping in use stays bought.
TEST(MappingRule, KeepsBoughtMappingsBesideManyShortLivedAllocations) {
  MappingRule rule;
  const Key kept{1, true, 7};
  EXPECT_TRUE(rule.pays(kept, kMappingNs, kMappingNs));
  for (uint64_t id = 100; id < 100'000; ++id) EXPECT_FALSE(rule.pays({1, true, id}, 1, kMappingNs));
  EXPECT_TRUE(rule.bought(kept));
  EXPECT_LT(rule.entries(), 20'000u);
}

/// Against the best choice in hindsight: map with the first access, or never.
TEST(MappingRule, CostsAtMostTwiceTheBestChoice) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    MappingRule rule;
    uint64_t paid = 0, unmapped = 0;
    bool bought = false;
    for (int accesses = static_cast<int>(random() % 300); accesses > 0; --accesses) {
      const uint64_t extra = random() % (round % 2 == 0 ? 20'000 : 2'000'000);
      unmapped += extra;
      if (bought) continue;
      bought = rule.pays({1, true, 7}, extra, kMappingNs);
      paid += bought ? kMappingNs : extra;
    }
    EXPECT_LE(paid, 2 * std::min(unmapped, kMappingNs));
  }
}

/// A put's mapping counts what puts save, apart from what the messages of the other side have cost.
TEST(MappingRule, CountsPutsApart) {
  using enum MappingRule::Alternative;
  MappingRule rule;
  const Key own{1, true, 7}, other{1, false, 8};
  EXPECT_TRUE(rule.pays(own, kMappingNs, kMappingNs));
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(rule.pays(other, kMappingNs / 100, kMappingNs, other_side));
  EXPECT_FALSE(rule.bought(other));
  EXPECT_TRUE(rule.pays(other, kMappingNs / 100, kMappingNs, other_side));
  EXPECT_TRUE(rule.bought(other));
  ASSERT_EQ(setenv("WEFT_GPU_MAPPING", "always", 1), 0);
  ASSERT_TRUE(config::load().ok());
  EXPECT_TRUE(rule.pays({1, false, 9}, 1, kMappingNs, other_side));
  ASSERT_EQ(setenv("WEFT_GPU_MAPPING", "auto", 1), 0);
  ASSERT_TRUE(config::load().ok());
}

/// Buffers of collectives that stay are mapped at once; buffers that come and go cost a bounded part of the
/// time.
TEST(MappingRule, MapsForCollectivesAtOnceWithinAnAdvance) {
  using enum MappingRule::Alternative;
  MappingRule rule;
  EXPECT_FALSE(rule.pays({1, false, 1}, 1, kMappingNs));
  uint64_t id = 100;
  while (rule.pays({1, false, id}, 1, kMappingNs, collective)) ASSERT_LT(++id, 10'000u);
  EXPECT_GE(id - 100, 64u) << "8 GPUs, some buffers each";
  EXPECT_TRUE(rule.bought({1, false, 100}));
  EXPECT_FALSE(rule.bought({1, false, id}));
  EXPECT_TRUE(rule.pays({1, false, id}, kMappingNs, kMappingNs, collective)) << "then as for messages";
}

TEST(MappingTime, FollowsWhatWasMeasured) {
  MappingTime time(1'100'000);
  EXPECT_EQ(time.ns(), 1'100'000u);
  for (int i = 0; i < 40; ++i) time.opened(5'000'000), time.closed(900'000);
  EXPECT_NEAR(static_cast<double>(time.ns()), 5.9e6, 0.1e6);
}

TEST(MappingTime, FirstOpenOfHiddenGpuCounts) {
  MappingTime time(1'100'000);
  time.opened_first_hidden(4'000'000);
  EXPECT_GE(time.ns(), 4'000'000u);
  time.opened_first_hidden(125'000'000);
  EXPECT_LT(time.ns(), 6'000'000u);
  for (int i = 0; i < 40; ++i) time.opened(1'000'000);
  EXPECT_LT(time.ns(), 1'300'000u);
}

TEST(MappingTime, OneSlowCallMovesItByLittle) {
  MappingTime time(1'100'000);
  time.opened(125'000'000);
  EXPECT_LT(time.ns(), 4'000'000u);
}

/// Enabling peer access takes 125 ms on H100: no number of peers makes mappings appear that expensive.
TEST(MappingTime, FirstOpensOfManyPeersMoveItByLittle) {
  MappingTime time(1'100'000);
  for (int i = 0; i < 100; ++i) time.opened_first(125'000'000);
  EXPECT_LT(time.ns(), 6'000'000u);
}

}  // namespace
}  // namespace weft::core
