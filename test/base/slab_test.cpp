// SPDX-License-Identifier: BSD-3-Clause
// Slab: what it says of any value, in all of its ranges, and its bounds.
#include "base/slab.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <set>
#include <vector>

namespace {

using weft::HandleState;
using weft::Slab;

struct Thing {
  explicit Thing(size_t n) : number(n) {}
  size_t number;
  char more[1000] = {};
};

TEST(Slab, KnowsItsObjectsInEveryRange) {
  Slab<Thing> slab;
  std::vector<Thing*> things;
  for (size_t i = 0; i < 20000; ++i) things.push_back(slab.create(i));  // 20 MB: four ranges
  EXPECT_EQ(slab.live(), things.size());
  EXPECT_EQ(std::set<Thing*>(things.begin(), things.end()).size(), things.size());
  for (size_t i = 0; i < things.size(); ++i) {
    ASSERT_EQ(things[i]->number, i);
    ASSERT_EQ(slab.check(things[i]), HandleState::live);
    ASSERT_EQ(slab.check(reinterpret_cast<char*>(things[i]) + 8), HandleState::foreign);
  }
  for (size_t i = 0; i < things.size(); i += 3) slab.destroy(things[i]);
  for (size_t i = 0; i < things.size(); ++i)
    ASSERT_EQ(slab.check(things[i]), i % 3 == 0 ? HandleState::freed : HandleState::live) << i;
  Thing* again = slab.create(size_t{7});
  EXPECT_EQ(again, things[19998]);  // the place that became free last
  EXPECT_EQ(slab.check(again), HandleState::live);
}

TEST(Slab, KnowsWhatIsNotItsOwn) {
  Slab<Thing> slab, empty;
  Thing* one = slab.create(size_t{1});
  EXPECT_EQ(slab.check(one + 2), HandleState::foreign);  // not made yet
  EXPECT_EQ(empty.check(one), HandleState::foreign);
  for (const uintptr_t value : {uintptr_t{0}, uintptr_t{1}, uintptr_t{0x101}, UINTPTR_MAX, UINTPTR_MAX / 2})
    EXPECT_EQ(slab.check(reinterpret_cast<void*>(value)), HandleState::foreign) << value;
}

TEST(Slab, MakesAsManyAsItMay) {
  Slab<Thing> slab(1000);  // the last range is cut short
  for (size_t i = 0; i < 1000; ++i) ASSERT_NE(slab.create(i), nullptr) << i;
  EXPECT_EQ(slab.create(size_t{0}), nullptr);
  EXPECT_EQ(slab.live(), 1000u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve address space themselves
TEST(Slab, SaysThatMemoryIsUsedUp) {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit small = before;
  small.rlim_cur = size_t{200} << 20;
  Slab<Thing> slab;
  ::setrlimit(RLIMIT_AS, &small);
  size_t made = 0;
  while (made < 1000000 && slab.create(made) != nullptr) ++made;
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_GT(made, 10000u);
  EXPECT_LT(made, 300000u);
}
#endif

}  // namespace
