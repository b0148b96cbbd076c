// SPDX-License-Identifier: BSD-3-Clause
// Registration cache with a real endpoint: hits, limits, no idle registrations if the provider pins pages.
#include <gtest/gtest.h>

#include <cstdlib>

#include "../reference/counted.hpp"
#include "base/config.hpp"
#include "transport/ofi/registration.hpp"

namespace {

using namespace weft;
using namespace weft::transport::ofi;
namespace ofi = weft::transport::ofi;

class RegistrationTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("WEFT_NET_OFI_CACHED_REGISTRATIONS", "4", 1);
    ::setenv("WEFT_NET_OFI_NIC", "lo+lo", 1);
    ::setenv("WEFT_NET_OFI_STRIPE_MIN_BYTES", "16k", 1);
    ASSERT_TRUE(config::load());
    auto opened = library();
    if (!opened) GTEST_SKIP() << "skipped: needs libfabric1: " << opened.error().message();
    auto choices = select_interfaces(**opened, 0, 1);
    if (!choices) GTEST_SKIP() << "skipped: needs libfabric1: " << choices.error().message();
    auto created = Adapters::open(**opened, std::move(*choices), 64);
    ASSERT_TRUE(created) << created.error().message();
    adapters = std::make_unique<Adapters>(std::move(*created));
  }
  void TearDown() override {
    if (adapters != nullptr) adapters->close();
  }
  std::unique_ptr<Adapters> adapters;
  const test::Counted hits{"net.ofi_registration_hits"}, misses{"net.ofi_registration_misses"},
      evictions{"net.ofi_registration_evictions"}, registrations{"net.ofi_registrations"};
  std::byte memory[1 << 16]{};
};

TEST_F(RegistrationTest, HitWhileInUse) {
  Registrations cache(*adapters, ofi::abi::kRemoteRead);
  auto whole = cache.acquire(memory, sizeof memory, {});
  ASSERT_TRUE(whole);
  auto part = cache.acquire(memory + 100, 1000, {});
  ASSERT_TRUE(part);
  EXPECT_EQ(*whole, *part);
  EXPECT_EQ(hits.growth(), 1U);
  EXPECT_EQ(misses.growth(), 1U);
  cache.release(*whole);
  cache.release(*part);
}

TEST_F(RegistrationTest, IdleRegistrationsAreKeptOnlyWithoutPinnedPages) {
  Registrations cache(*adapters, ofi::abi::kRemoteRead);
  cache.release(*cache.acquire(memory, 4096, {}));
  EXPECT_EQ(registrations.growth(), adapters->wants(ofi::abi::kMrAllocated) ? 0U : 1U);
  cache.release(*cache.acquire(memory, 4096, {}));
  EXPECT_EQ(hits.growth(), adapters->wants(ofi::abi::kMrAllocated) ? 0U : 1U);
}

TEST_F(RegistrationTest, IdleRegistrationsAreBounded) {
  Registrations cache(*adapters, ofi::abi::kRemoteRead);
  for (size_t i = 0; i < 16; ++i) cache.release(*cache.acquire(memory + i * 4096, 4096, {}));
  EXPECT_LE(registrations.growth(), 4U);
  if (!adapters->wants(ofi::abi::kMrAllocated)) {
    EXPECT_EQ(evictions.growth(), 12U);
  }
  // The oldest was evicted.
  const auto before = hits.growth();
  cache.release(*cache.acquire(memory, 4096, {}));
  EXPECT_EQ(hits.growth(), before);
}

TEST_F(RegistrationTest, ReusedAddressIsRegisteredAgain) {
  Registrations cache(*adapters, ofi::abi::kRemoteRead);
  device::Memory first, second;
  first.buffer_id = 1;
  second.buffer_id = 2;
  auto a = cache.acquire(memory, 4096, first);
  auto b = cache.acquire(memory, 4096, second);
  ASSERT_TRUE(a);
  ASSERT_TRUE(b);
  EXPECT_NE(*a, *b);
  cache.release(*a);
  cache.release(*b);
  EXPECT_EQ(registrations.growth(), 0U);
}

// A large region has a registration with each adapter, a small one with the first.
TEST_F(RegistrationTest, LargeRegionsAreRegisteredWithAllAdapters) {
  Registrations cache(*adapters, ofi::abi::kRemoteRead);
  ASSERT_EQ(adapters->size(), 2U);
  auto small = cache.acquire(memory, stripe_min_bytes() - 1, {});
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)->mr_count, 1U);
  EXPECT_EQ(cache.striped_in_use(), 0U);
  auto large = cache.acquire(memory, stripe_min_bytes(), {});  // not the small one, which has too few keys
  ASSERT_TRUE(large);
  EXPECT_EQ((*large)->mr_count, 2U);
  EXPECT_NE((*large)->mrs[0], nullptr);
  EXPECT_NE((*large)->mrs[1], nullptr);
  auto part = cache.acquire(memory + 1, 100, {});
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, *large);
  EXPECT_EQ(cache.striped_in_use(), 1U);
  cache.release(*large);
  EXPECT_EQ(cache.striped_in_use(), 1U);
  cache.release(*part);
  EXPECT_EQ(cache.striped_in_use(), 0U);
  cache.release(*small);
}

}  // namespace
