// SPDX-License-Identifier: BSD-3-Clause
// Where host messages stop being eager, for machines that were measured (bench/results/host-limits.json).
#include "p2p/protocol/choice.hpp"

#include <gtest/gtest.h>

namespace weft::p2p {
namespace {

TEST(EagerCrossing, CoresWithoutACommonCache) {
  EXPECT_NEAR(static_cast<double>(eager_crossing(500, 850)), 8192,
              1500);                           // 8 KiB: both ways equal; 16 KiB: read
  EXPECT_EQ(eager_crossing(2000, 300), 4096);  // never less
}

TEST(EagerCrossing, CoresThatShareACache) {
  EXPECT_EQ(eager_crossing(80, 1500), UINT64_MAX);
  EXPECT_EQ(eager_crossing(0, 0), UINT64_MAX);
}

TEST(EagerCrossing, CostsOfTheCallDecide) {
  EXPECT_LT(eager_crossing(400, 600), eager_crossing(400, 1200));
  EXPECT_GT(eager_crossing(300, 900), eager_crossing(600, 900));
}

}  // namespace
}  // namespace weft::p2p
