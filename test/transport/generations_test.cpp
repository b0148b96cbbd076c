// SPDX-License-Identifier: BSD-3-Clause
#include "transport/generations.hpp"

#include <gtest/gtest.h>

#include "base/counters.hpp"

namespace weft::transport {
namespace {

using Action = Generations::Action;
constexpr Generations::Source kSource{7, 1};

uint64_t number(uint64_t generation, uint64_t message) { return generation << Generations::kShift | message; }

TEST(Generations, AConnectionTakesTheMessagesOfItsGeneration) {
  Generations generations;
  uint64_t expected = 0;
  EXPECT_EQ(generations.check(kSource, number(3, 1), false, &expected), Action::take);  // early
  EXPECT_EQ(expected, number(3, 0));
  EXPECT_EQ(generations.check(kSource, number(3, 0), false, &expected), Action::take);
  EXPECT_EQ(generations.check(kSource, number(3, 2), true, &expected), Action::take);
  EXPECT_EQ(generations.size(), 0u);
}

TEST(Generations, MessagesOfAFormerConnectionAreDroppedAndCounted) {
  const counters::Counter* const stale = counters::find("net.stale_messages");
  ASSERT_NE(stale, nullptr);
  Generations generations;
  generations.removed(kSource, number(3, 5), false);
  EXPECT_EQ(generations.size(), 1u);
  uint64_t expected = 0;
  const uint64_t before = stale->value();
  EXPECT_EQ(generations.check(kSource, number(3, 5), false, &expected), Action::drop);
  EXPECT_EQ(generations.check(kSource, number(0, 0), false, &expected), Action::drop);
  EXPECT_EQ(expected, 0u);
  EXPECT_EQ(generations.check(kSource, number(4, 0), false, &expected), Action::take);
  EXPECT_EQ(generations.check(kSource, number(2, 1), false, &expected), Action::drop);
  EXPECT_EQ(stale->value(), before + 3);
  EXPECT_EQ(generations.check(kSource, number(3, 6), true, &expected), Action::drop);  // the late notice
  EXPECT_EQ(stale->value(), before + 3);
  EXPECT_EQ(generations.size(), 0u);
  EXPECT_EQ(expected, number(4, 0));
}

TEST(Generations, ARequestIsPassedOnOnceAndNumberedWithItsConnection) {
  Generations generations;
  EXPECT_EQ(generations.check(kSource, number(5, 0), false, nullptr), Action::unknown);
  EXPECT_EQ(generations.check(kSource, number(5, 0), false, nullptr), Action::drop);  // a duplicate
  uint64_t expected = 0;
  EXPECT_EQ(generations.check(kSource, number(5, 1), false, &expected), Action::take);
  EXPECT_EQ(expected, number(5, 1));
  EXPECT_EQ(generations.size(), 0u);
}

TEST(Generations, ARequestMayArriveBeforeTheEndOfTheFormerConnection) {
  Generations generations;
  uint64_t expected = number(5, 9);
  EXPECT_EQ(generations.check(kSource, number(6, 0), false, &expected), Action::unknown);
  EXPECT_EQ(generations.check(kSource, number(5, 9), false, &expected), Action::take);
  generations.removed(kSource, number(5, 10), false);
  EXPECT_EQ(generations.check(kSource, number(5, 10), true, nullptr), Action::drop);
  expected = 0;
  EXPECT_EQ(generations.check(kSource, number(6, 1), false, &expected), Action::take);
  EXPECT_EQ(expected, number(6, 1));
  EXPECT_EQ(generations.size(), 0u);
}

TEST(Generations, AWithdrawnRequestLeavesNothing) {
  Generations generations;
  EXPECT_EQ(generations.check(kSource, number(5, 0), false, nullptr), Action::unknown);
  EXPECT_EQ(generations.check(kSource, number(5, 1), false, nullptr), Action::unknown);
  EXPECT_EQ(generations.check(kSource, number(5, 2), false, nullptr), Action::unknown);
  EXPECT_EQ(generations.check(kSource, number(5, 3), false, nullptr), Action::drop);
  EXPECT_EQ(generations.check(kSource, number(5, 3), true, nullptr), Action::drop);
  EXPECT_EQ(generations.size(), 0u);
}

TEST(Generations, AReplyToAFormerRequestDoesNotKeepTheNewConnectionOut) {
  for (const bool notified : {false, true}) {
    Generations generations;
    uint64_t expected = 0;
    EXPECT_EQ(generations.check(kSource, number(5, 0), false, &expected), Action::take);  // the late reply
    expected = number(5, notified ? 2 : 1);
    EXPECT_EQ(generations.check(kSource, number(6, 0), false, &expected), Action::unknown);
    generations.renew(kSource, number(6, 0), notified, expected);
    EXPECT_EQ(expected, number(6, 0));
    EXPECT_EQ(generations.check(kSource, number(6, 0), false, &expected), Action::take);
    EXPECT_EQ(generations.check(kSource, number(5, 1), true, &expected), Action::drop);
    EXPECT_EQ(generations.size(), 0u);
    EXPECT_EQ(expected, number(6, 0));
  }
}

TEST(Generations, ALateNoticeBeginsNoConnection) {
  Generations generations;
  uint64_t expected = 0;
  EXPECT_EQ(generations.check(kSource, number(5, 0), true, &expected), Action::drop);
  EXPECT_EQ(generations.check(kSource, number(6, 0), false, &expected), Action::take);
  EXPECT_EQ(expected, number(6, 0));
}

}  // namespace
}  // namespace weft::transport
