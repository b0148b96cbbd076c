// SPDX-License-Identifier: BSD-3-Clause
// Op: the predefined table, the types it allows, small and large user functions.
#include "core/op.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/solo.hpp"

namespace weft::core {
namespace {

constexpr uintptr_t kSum = 0x21, kMax = 0x23, kBand = 0x28, kMinloc = 0x38, kReplace = 0x3c, kAvg = 0x3e;
constexpr uintptr_t kInt = 0x209, kDouble = 0x214, k2Int = 0x22b;

const datatype::Datatype& type(uintptr_t handle) { return *datatype::find(handle); }

TEST(Op, PredefinedTable) {
  int known = 0;
  for (uintptr_t value = 0; value < 0x100; ++value) {
    const Op* op = Op::predefined(value);
    if (op == nullptr) continue;
    ++known;
    EXPECT_EQ(op->handle, value);
    EXPECT_FALSE(op->user);
    EXPECT_EQ(op->name.rfind(value == kAvg ? "MPIX_" : "MPI_", 0), 0u);
  }
  EXPECT_EQ(known, 15);
  EXPECT_EQ(Op::predefined(0x20), nullptr);  // MPI_OP_NULL
  EXPECT_EQ(Op::predefined(kSum)->name, "MPI_SUM");
  EXPECT_TRUE(Op::predefined(kSum)->commutative);
  EXPECT_FALSE(Op::predefined(kReplace)->commutative);
}

TEST(Op, AllowsWhatTheStandardDefines) {
  EXPECT_TRUE(Op::predefined(kSum)->allows(type(kDouble)));
  EXPECT_FALSE(Op::predefined(kBand)->allows(type(kDouble)));
  EXPECT_TRUE(Op::predefined(kMinloc)->allows(type(k2Int)));
  EXPECT_FALSE(Op::predefined(kMinloc)->allows(type(kInt)));
  auto derived = datatype::contiguous(2, *datatype::find(kInt));
  ASSERT_TRUE(derived.ok());
  EXPECT_FALSE(Op::predefined(kSum)->allows(**derived));
  const Ref<Op> user(Op::create(
      solo(), [](void*, void*, int*, void**) {}, true));
  EXPECT_TRUE(user->allows(**derived));
  (*derived)->release();
}

TEST(Op, AppliesPredefinedOnes) {
  const std::vector<int> in{5, -2, 9};
  std::vector<int> inout{1, 4, 9};
  Op::predefined(kMax)->apply(in.data(), inout.data(), 3, type(kInt));
  EXPECT_EQ(inout, (std::vector<int>{5, 4, 9}));
  Op::predefined(kSum)->apply(in.data(), inout.data(), 2, type(kInt));
  EXPECT_EQ(inout, (std::vector<int>{10, 2, 9}));
}

void* seen_type;
int64_t seen_count;
bool lock_was_free;

void subtract(void* in, void* inout, int* count, void** datatype_handle) {
  seen_type = *datatype_handle;
  seen_count = *count;
  lock_was_free = solo().lock.try_lock();  // fails if the caller, the only thread, still held the lock
  if (lock_was_free) solo().lock.unlock();
  for (int n = 0; n < *count; ++n)
    static_cast<int*>(inout)[n] = static_cast<int*>(in)[n] - static_cast<int*>(inout)[n];
}

TEST(Op, CallsUserFunctionsWithTheTypesHandleAndWithoutTheLock) {
  const Ref<Op> op(Op::create(solo(), subtract, false));
  EXPECT_TRUE(op->user);
  EXPECT_FALSE(op->commutative);
  const std::vector<int> in{5, 7};
  std::vector<int> inout{1, 2};
  {
    const Threaded hold;
    op->apply(in.data(), inout.data(), 2, type(kInt));
  }
  EXPECT_EQ(inout, (std::vector<int>{4, 5}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen_type), kInt);
  EXPECT_EQ(seen_count, 2);
  EXPECT_TRUE(lock_was_free);
  seen_count = -1;
  op->apply(in.data(), inout.data(), 0, type(kInt));
  EXPECT_EQ(seen_count, -1) << "called for nothing";
}

std::vector<std::pair<char*, int>> parts;

TEST(Op, SplitsCountsThatAnIntCannotHold) {
  auto empty = datatype::resized(*datatype::find(0x247), 0, 2);  // one byte of two; never touched here
  ASSERT_TRUE(empty.ok());
  parts.clear();
  const Ref<Op> op(Op::create(
      solo(), [](void* in, void*, int* count, void**) { parts.emplace_back(static_cast<char*>(in), *count); },
      true));
  const int64_t count = (int64_t{1} << 31) + 5;
  auto* const base = reinterpret_cast<char*>(uintptr_t{1} << 40);
  op->apply(base, base, count, **empty);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (std::pair{base, INT32_MAX}));
  EXPECT_EQ(parts[1], (std::pair{base + 2 * int64_t{INT32_MAX}, 6}));
  (*empty)->release();
}

TEST(Op, LargeFunctionsGetTheWholeCount) {
  const Ref<Op> op(Op::create_large(
      solo(), [](void*, void*, int64_t* count, void**) { seen_count = *count; }, true));
  op->apply(nullptr, nullptr, int64_t{1} << 40, type(kInt));
  EXPECT_EQ(seen_count, int64_t{1} << 40);
}

}  // namespace
}  // namespace weft::core
