// SPDX-License-Identifier: BSD-3-Clause
// The pool of Weft's GPU memory with a cap of 8 MiB: refusal, eviction of unleased workspace, reuse,
// counters.
#include "device/pool.hpp"

#include <gtest/gtest.h>

#include "../reference/counted.hpp"
#include "base/counters.hpp"
#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

using device::Workspace;
using Kind = Buffer::Kind;

constexpr size_t kMiB = size_t{1} << 20;

uint64_t held() { return counters::find("gpu.pool_bytes")->value(); }

class PoolTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) near_ = Buffer(Kind::device, 64).memory();
  }
  void TearDown() override {
    Workspace::close();
    EXPECT_EQ(held(), 0u) << "memory was not returned";
  }
  Memory near_;
};

TEST_F(PoolTest, RefusesMemoryAboveTheCap) {
  const Counted refusals("gpu.pool_refusals");
  auto first = device::allocate_scratch(near_, 6 * kMiB);
  ASSERT_OK(first);
  EXPECT_EQ(held(), 6 * kMiB);
  auto second = device::allocate_scratch(near_, 3 * kMiB);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::unsupported);
  EXPECT_NE(second.error().message().find("WEFT_GPU_POOL_BYTES"), std::string::npos);
  EXPECT_EQ(refusals.growth(), 1u);
  device::free_scratch(*first);
  auto third = device::allocate_scratch(near_, 8 * kMiB);
  ASSERT_OK(third);
  device::free_scratch(*third);
}

TEST_F(PoolTest, ReusesReturnedWorkspace) {
  const Counted leases("gpu.pool_leases"), allocations("gpu.pool_allocations");
  uintptr_t base = 0;
  for (int i = 0; i < 3; ++i) {
    auto leased = Workspace::lease(near_, kMiB - static_cast<size_t>(i));
    ASSERT_OK(leased);
    if (i != 0) {
      EXPECT_EQ(leased->memory().base, base);
    }
    base = leased->memory().base;
  }
  EXPECT_EQ(leases.growth(), 3u);
  EXPECT_EQ(allocations.growth(), 1u);
}

TEST_F(PoolTest, DoesNotServeSmallRequestsFromLargeBlocks) {
  ASSERT_OK(Workspace::lease(near_, 4 * kMiB));
  ASSERT_OK(Workspace::lease(near_, 100'000));
  EXPECT_EQ(held(), 4 * kMiB + 128 * 1024);
}

TEST_F(PoolTest, FreesUnleasedWorkspaceForOtherMemory) {
  auto kept = Workspace::lease(near_, 2 * kMiB);
  ASSERT_OK(kept);
  ASSERT_OK(Workspace::lease(near_, 4 * kMiB));  // returned at once
  EXPECT_EQ(held(), 6 * kMiB);
  auto other = device::allocate_scratch(near_, 6 * kMiB);
  ASSERT_OK(other);
  EXPECT_EQ(held(), 8 * kMiB);
  EXPECT_FALSE(Workspace::lease(near_, kMiB)) << "leased workspace is never freed";
  EXPECT_TRUE(kept->alive());
  device::free_scratch(*other);
}

TEST_F(PoolTest, FreesUnusedMemoryOfCachesForOtherMemory) {
  struct Cache final : device::ScratchCache {
    bool evict() override {
      if (!unused) return false;
      device::free_scratch(kept);
      unused = false;
      return true;
    }
    Memory kept;
    bool unused = false;
  };
  {
    Cache cache;
    auto kept = device::allocate_scratch(near_, 6 * kMiB);
    ASSERT_OK(kept);
    cache.kept = *kept;
    EXPECT_FALSE(device::allocate_scratch(near_, 3 * kMiB)) << "memory in use was freed";
    cache.unused = true;
    auto other = device::allocate_scratch(near_, 3 * kMiB);
    ASSERT_OK(other);
    EXPECT_FALSE(cache.unused);
    device::free_scratch(*other);
  }
  EXPECT_FALSE(device::allocate_scratch(near_, 9 * kMiB)) << "a cache that has ended is asked";
}

TEST_F(PoolTest, LeasesThatOutliveCloseAreDead) {
  auto leased = Workspace::lease(near_, kMiB);
  ASSERT_OK(leased);
  Workspace::close();
  EXPECT_FALSE(leased->alive());
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace weft::test
