// SPDX-License-Identifier: BSD-3-Clause
// Slab: validation of handle values in all ranges, capacity and exhausted memory.
#include "base/slab.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <new>
#include <set>
#include <vector>

namespace {

using weft::HandleState;
using weft::Slab;

struct Object {
  explicit Object(size_t n) : number(n) {}
  size_t number;
  char more[1000] = {};
};

TEST(Slab, ClassifiesObjectsOfEveryRange) {
  Slab<Object> slab;
  std::vector<Object*> objects;
  for (size_t i = 0; i < 20000; ++i) objects.push_back(slab.create(i));  // 20 MB: four ranges
  EXPECT_EQ(slab.live(), objects.size());
  EXPECT_EQ(std::set<Object*>(objects.begin(), objects.end()).size(), objects.size());
  for (size_t i = 0; i < objects.size(); ++i) {
    ASSERT_EQ(objects[i]->number, i);
    ASSERT_EQ(slab.check(objects[i]), HandleState::live);
    ASSERT_EQ(slab.check(reinterpret_cast<char*>(objects[i]) + 8), HandleState::foreign);
  }
  for (size_t i = 0; i < objects.size(); i += 3) slab.destroy(objects[i]);
  for (size_t i = 0; i < objects.size(); ++i)
    ASSERT_EQ(slab.check(objects[i]), i % 3 == 0 ? HandleState::freed : HandleState::live) << i;
  Object* again = slab.create(size_t{7});
  EXPECT_EQ(again, objects[19998]);  // the most recently freed cell
  EXPECT_EQ(slab.check(again), HandleState::live);
}

TEST(Slab, ClassifiesForeignValues) {
  Slab<Object> slab, empty;
  Object* one = slab.create(size_t{1});
  EXPECT_EQ(slab.check(one + 2), HandleState::foreign);  // not yet created
  EXPECT_EQ(empty.check(one), HandleState::foreign);
  for (const uintptr_t value : {uintptr_t{0}, uintptr_t{1}, uintptr_t{0x101}, UINTPTR_MAX, UINTPTR_MAX / 2})
    EXPECT_EQ(slab.check(reinterpret_cast<void*>(value)), HandleState::foreign) << value;
}

TEST(Slab, CreatesUpToItsCapacity) {
  Slab<Object> slab(1000);  // limits the last range
  for (size_t i = 0; i < 1000; ++i) ASSERT_NE(slab.create(i), nullptr) << i;
  EXPECT_EQ(slab.create(size_t{0}), nullptr);
  EXPECT_EQ(slab.live(), 1000u);
}

struct Throwing {
  explicit Throwing(bool fails) {
    if (fails) throw std::bad_alloc();
  }
};

TEST(Slab, TakesBackTheCellOfAnObjectThatWasNotConstructed) {
  Slab<Throwing> slab(1);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(slab.create(true), std::bad_alloc);
  EXPECT_EQ(slab.live(), 0u);
  Throwing* made = slab.create(false);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(slab.check(made), HandleState::live);
}

TEST(Slab, VisitsEachLiveObject) {
  Slab<int> slab;
  constexpr int kCount = 50000;  // more than one range
  std::vector<int*> made;
  for (int i = 0; i < kCount; ++i) made.push_back(slab.create(i));
  long sum = 0;
  for (int i = 0; i < kCount; i += 2) slab.destroy(made[static_cast<size_t>(i)]);
  slab.for_each([&](int& value) { sum += value; });
  EXPECT_EQ(sum, long{kCount} / 2 * (kCount / 2));  // of the odd numbers
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers reserve address space
TEST(Slab, ReturnsNullWhenMemoryIsExhausted) {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit small = before;
  small.rlim_cur = size_t{200} << 20;
  Slab<Object> slab;
  ::setrlimit(RLIMIT_AS, &small);
  void* const larger =
      ::mmap(nullptr, 2 * small.rlim_cur, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (larger != MAP_FAILED) {
    ::munmap(larger, 2 * small.rlim_cur);
    ::setrlimit(RLIMIT_AS, &before);
    GTEST_SKIP() << "the limit of address space has no effect, as under qemu";
  }
  size_t made = 0;
  while (made < 1000000 && slab.create(made) != nullptr) ++made;
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_GT(made, 10000u);
  EXPECT_LT(made, 300000u);
}
#endif

}  // namespace
