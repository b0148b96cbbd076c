// SPDX-License-Identifier: BSD-3-Clause
// Datatypes as bytes: what is rebuilt packs the same bytes; damaged bytes are refused or harmless.
#include "datatype/serialize.hpp"

#include <cstring>

#include "datatype/f90.hpp"
#include "datatype/support.hpp"

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;

struct Release {
  void operator()(Datatype* type) const { type->release(); }
};
using Rebuilt = std::unique_ptr<Datatype, Release>;

Rebuilt rebuild(const Bytes& bytes) {
  DatatypeResult made = datatype::deserialize(bytes);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
  return Rebuilt(made.ok() ? *made : nullptr);
}

void expect_same(const Datatype& a, const Datatype& b) {
  EXPECT_EQ(a.size(), b.size());
  EXPECT_EQ(a.lb(), b.lb());
  EXPECT_EQ(a.ub(), b.ub());
  EXPECT_EQ(a.true_lb(), b.true_lb());
  EXPECT_EQ(a.true_ub(), b.true_ub());
  EXPECT_EQ(a.contents().combiner, b.contents().combiner);
  EXPECT_EQ(datatype::serialize(a), datatype::serialize(b));
  EXPECT_TRUE(b.committed());
}

TEST(Serialize, PredefinedTypesAreTheirHandles) {
  for (Datatype* type : datatype::all_predefined())
    EXPECT_EQ(rebuild(datatype::serialize(*type)).get(), type);
}

TEST(Serialize, RandomTypesAreRebuilt) {
  const size_t live = datatype::live();
  Random seeds(7);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t seed = seeds();
    Random random(seed);
    const Type type = random_type(random, static_cast<int>(between(random, 1, 4)));
    const Rebuilt rebuilt = rebuild(datatype::serialize(*type));
    ASSERT_NE(rebuilt, nullptr) << "seed " << seed;
    expect_same(*type, *rebuilt);
    if (type->size() <= 4096 && type->true_extent() <= 1 << 20) {
      Bytes memory(static_cast<size_t>(type->true_extent()));
      for (auto& byte : memory) byte = static_cast<std::byte>(random());
      Bytes one(static_cast<size_t>(type->size())), other(one.size());
      const void* buffer = memory.data() - type->true_lb();
      datatype::pack(*type, 1, buffer, 0, one.data(), one.size());
      datatype::pack(*rebuilt, 1, buffer, 0, other.data(), other.size());
      EXPECT_EQ(one, other);
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_EQ(datatype::live(), live);
}

TEST(Serialize, ArraysAndWideForms) {
  Datatype& ints = basic(Basic::int32);
  const Count sizes[] = {6, 8}, subsizes[] = {2, 3}, starts[] = {1, 4};
  const int distributions[] = {static_cast<int>(datatype::Distribution::cyclic),
                               static_cast<int>(datatype::Distribution::block)};
  const int values[] = {2, datatype::kDefaultDistributionArgument}, psizes[] = {2, 2};
  for (const auto width : {datatype::Width::narrow, datatype::Width::wide}) {
    const Type part =
        must(datatype::subarray(sizes, subsizes, starts, datatype::Order::fortran, ints, width));
    expect_same(*part, *rebuild(datatype::serialize(*part)));
    const Type share = must(
        datatype::darray({4, 3, sizes, distributions, values, psizes, datatype::Order::c}, *part, width));
    expect_same(*share, *rebuild(datatype::serialize(*share)));
  }
  Datatype* real = must(datatype::f90_real(10, 100)).release();
  EXPECT_EQ(rebuild(datatype::serialize(*real)).get(), real);
}

TEST(Serialize, ASharedOldTypeIsWrittenOnce) {
  const Type column = must(datatype::vector(1000, 1, 3, basic(Basic::float64)));
  std::vector<Datatype*> types(50, column.get());
  const std::vector<Count> lengths(50, 1), displacements(50, 0);
  const Type all = must(datatype::struct_(lengths, displacements, types));
  const Type one = must(datatype::struct_({lengths.data(), 1}, {displacements.data(), 1}, {types.data(), 1}));
  const size_t entry = sizeof(int) + sizeof(Count) + sizeof(uint64_t);
  EXPECT_EQ(datatype::serialize(*all).size(), datatype::serialize(*one).size() + 49 * entry);
}

// Cut and changed bytes never read outside, and leave no type behind.
TEST(Serialize, DamagedBytesAreRefusedOrHarmless) {
  const size_t live = datatype::live();
  Random random(11);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const Type type = random_type(random, 3);
    Bytes bytes = datatype::serialize(*type);
    if (random() % 2 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    DatatypeResult made = datatype::deserialize(bytes);
    if (made)
      (*made)->release();
    else
      ++refused;
  }
  EXPECT_GT(refused, 1500);
  EXPECT_EQ(datatype::live(), live);
}

TEST(RemoteTypes, ForgetTheLeastRecentlyUsed) {
  const size_t live = datatype::live();
  {
    datatype::RemoteTypes known(2);
    const Type pair = must(datatype::contiguous(2, basic(Basic::int32)));
    const Bytes bytes = datatype::serialize(*pair);
    ASSERT_TRUE(known.add(1, 10, bytes).ok());
    ASSERT_TRUE(known.add(1, 11, bytes).ok());
    EXPECT_NE(known.find(1, 10), nullptr);
    EXPECT_EQ(known.find(2, 10), nullptr);
    ASSERT_TRUE(known.add(2, 10, bytes).ok());
    EXPECT_EQ(known.find(1, 11), nullptr);
    EXPECT_NE(known.find(1, 10), nullptr);
    known.forget(1);
    EXPECT_EQ(known.size(), 1u);
    EXPECT_FALSE(known.add(2, 12, Bytes(5)).ok());
  }
  EXPECT_EQ(datatype::live(), live);
}

}  // namespace
}  // namespace weft::test
