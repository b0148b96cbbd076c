// SPDX-License-Identifier: BSD-3-Clause
// Random nested datatypes against the oracle; a failure prints its seed. Typed copies.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "datatype/support.hpp"

namespace weft::test {
namespace {

constexpr Count kLargest = 20000;  // bytes, limits the oracle's byte map

using Clock = std::chrono::steady_clock;

/// Run time with random seeds; 0: a fixed number of fixed seeds.
std::chrono::seconds property_seconds() {
  const char* text = std::getenv("WEFT_PROPERTY_SECONDS");
  return std::chrono::seconds(text == nullptr ? 0 : std::atol(text));
}

TEST(RandomTypes, AgreeWithTheOracle) {
  int checked = 0;
  const size_t live_at_start = datatype::live();
  const Clock::time_point end = Clock::now() + property_seconds();
  const bool timed = property_seconds().count() != 0;
  Random seeds(timed ? std::random_device()() : 20240917);
  for (int i = 0; timed ? Clock::now() < end : i < 4000; ++i) {
    const uint64_t seed = seeds();
    Random random(seed);
    const Type type = random_type(random, static_cast<int>(between(random, 1, 4)));
    ASSERT_NE(type, nullptr);
    const Count count = between(random, 0, 3);
    if (type->size() * std::max<Count>(count, 1) > kLargest) continue;
    check_against_oracle(*type, count, random);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, 3500);
  EXPECT_EQ(datatype::live(), live_at_start);
}

TEST(RandomTypes, CopyBetweenLayouts) {
  Datatype& ints = basic(Basic::int32);
  const Type column = must(datatype::vector(5000, 1, 3, ints));
  const Type pairs = must(datatype::vector(2500, 2, 5, ints));
  std::vector<int> from(15000), middle(12500, -1), back(15000, -1), flat(5000);
  std::iota(from.begin(), from.end(), 0);
  EXPECT_EQ(datatype::copy(from.data(), 1, *column, middle.data(), 1, *pairs), 20000U);
  EXPECT_EQ(datatype::copy(middle.data(), 1, *pairs, back.data(), 1, *column), 20000U);
  for (size_t i = 0; i < 15000; ++i) ASSERT_EQ(back[i], i % 3 == 0 ? static_cast<int>(i) : -1);
  EXPECT_EQ(datatype::copy(from.data(), 1, *column, flat.data(), 5000, ints), 20000U);
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(flat[i], static_cast<int>(3 * i));
  EXPECT_EQ(datatype::copy(from.data(), 1, *column, flat.data(), 7, ints), 28U);
}

TEST(RandomTypes, AbsoluteAddressesFromBottom) {
  int a = 1;
  double b = 2.5;
  const std::vector<Count> lengths = {1, 1};
  const std::vector<Count> at = {reinterpret_cast<Count>(&a), reinterpret_cast<Count>(&b)};
  const std::vector<Datatype*> types = {&basic(Basic::int32), &basic(Basic::float64)};
  const Type type = must(datatype::struct_(lengths, at, types));
  char stream[12];
  ASSERT_EQ(datatype::pack(*type, 1, nullptr, 0, stream, sizeof stream), 12U);
  EXPECT_EQ(std::memcmp(stream, &a, 4), 0);
  EXPECT_EQ(std::memcmp(stream + 4, &b, 8), 0);
}

}  // namespace
}  // namespace weft::test
