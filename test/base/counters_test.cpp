// SPDX-License-Identifier: BSD-3-Clause
// Counters register themselves; assertions abort in the builds that check them.
#include "base/counters.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/assert.hpp"

namespace weft {
namespace {

counters::Counter events("test.events", counters::Unit::events, "Events of this test");
counters::Counter held("test.held", counters::Unit::bytes, "Bytes that this test holds");

TEST(Counters, AreFoundByNameInOrder) {
  EXPECT_EQ(counters::find("test.events"), &events);
  EXPECT_EQ(counters::find("test.none"), nullptr);
  const auto all = counters::all();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(std::string(all[i - 1]->name()), all[i]->name());
  EXPECT_STREQ(counters::name_of(held.unit()), "bytes");
}

TEST(Counters, LevelsGoDown) {
  held.add(100);
  held.subtract(60);
  EXPECT_EQ(held.value(), 40u);
}

TEST(Counters, SharedAdditionsAreNotLost) {
  const uint64_t before = events.value();
  std::thread other([] {
    for (int i = 0; i < 100000; ++i) events.add_shared();
  });
  for (int i = 0; i < 100000; ++i) events.add_shared();
  other.join();
  EXPECT_EQ(events.value(), before + 200000);
}

TEST(Assertions, AbortWhereTheyAreChecked) {
#ifdef WEFT_ASSERTS
  EXPECT_DEATH(WEFT_ASSERT(events.value() == UINT64_MAX), "does not hold");
#else
  int evaluated = 0;
  WEFT_ASSERT(++evaluated != 0);
  EXPECT_EQ(evaluated, 0);
#endif
}

}  // namespace
}  // namespace weft
