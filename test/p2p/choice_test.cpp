// SPDX-License-Identifier: BSD-3-Clause
// Eager limits of host messages on measured machines (bench/results/host-limits.json).
#include "p2p/protocol/choice.hpp"

#include <gtest/gtest.h>

namespace weft::p2p {
namespace {

TEST(EagerBreakEven, CoresWithoutACommonCache) {
  EXPECT_NEAR(static_cast<double>(eager_break_even(500, 850)), 8192,
              1500);                             // 8 KiB: both protocols equal; 16 KiB: single copy
  EXPECT_EQ(eager_break_even(2000, 300), 4096);  // lower bound
}

TEST(EagerBreakEven, CoresThatShareACache) {
  EXPECT_EQ(eager_break_even(80, 1500), UINT64_MAX);
  EXPECT_EQ(eager_break_even(0, 0), UINT64_MAX);
}

TEST(EagerBreakEven, CostsOfTheCallDecide) {
  EXPECT_LT(eager_break_even(400, 600), eager_break_even(400, 1200));
  EXPECT_GT(eager_break_even(300, 900), eager_break_even(600, 900));
}

}  // namespace
}  // namespace weft::p2p
