// SPDX-License-Identifier: BSD-3-Clause
// Every datatype constructor against the oracle, extents of the standard's examples, invalid arguments.
#include <set>
#include <vector>

#include "datatype/darray_argument.hpp"
#include "datatype/support.hpp"

namespace weft::test {
namespace {

namespace dt = weft::datatype;

class Constructors : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(dt::live(), live_at_start_) << "datatypes leaked"; }
  void check(const Type& type, Count count = 3) {
    ASSERT_NE(type, nullptr);
    check_against_oracle(*type, count, random_);
  }
  Random random_{7};
  Datatype& int_ = basic(Basic::int32);
  Datatype& double_ = basic(Basic::float64);
  Datatype& char_ = basic(Basic::character);
  size_t live_at_start_ = dt::live();
};

TEST_F(Constructors, Predefined) {
  EXPECT_EQ(dt::all_predefined().size(), 74U);
  for (Datatype* type : dt::all_predefined()) {
    EXPECT_EQ(dt::find(type->handle()), type);
    const bool extension = std::set<uintptr_t>{0x24a, 0x24b, 0x242, 0x246}.contains(type->handle());
    EXPECT_EQ(type->name().rfind(extension ? "MPIX_" : "MPI_", 0), 0U);
    check_against_oracle(*type, 3, random_);
  }
  EXPECT_EQ(dt::find(0x200), nullptr);  // MPI_DATATYPE_NULL
  EXPECT_EQ(dt::find(0), nullptr);
  EXPECT_EQ(dt::find(0x12345678), nullptr);
  EXPECT_EQ(basic(Basic::short_int).size(), 6);
  EXPECT_EQ(basic(Basic::short_int).extent(), 8);
  EXPECT_EQ(basic(Basic::long_double_int).size(), 20);
  EXPECT_EQ(basic(Basic::long_double_int).extent(), 32);
  EXPECT_FALSE(basic(Basic::double_int).contiguous());
  EXPECT_TRUE(basic(Basic::two_int).contiguous());
}

TEST_F(Constructors, Contiguous) {
  for (const Count count : {0, 1, 5}) check(must(dt::contiguous(count, int_)));
  const Type five = must(dt::contiguous(5, int_));
  EXPECT_TRUE(five->contiguous());
  EXPECT_EQ(five->basic(), Basic::int32);
}

TEST_F(Constructors, Vector) {
  check(must(dt::vector(3, 2, 4, int_)));
  check(must(dt::vector(3, 2, -4, double_)));
  check(must(dt::vector(0, 2, 4, int_)));
  check(must(dt::vector(3, 0, 4, int_)));
  check(must(dt::hvector(3, 2, 9, int_)));
  check(must(dt::hvector(3, 2, -64, int_)));
  const Type dense = must(dt::vector(4, 2, 2, int_));
  EXPECT_TRUE(dense->contiguous());
}

TEST_F(Constructors, Indexed) {
  const std::vector<Count> lengths = {2, 0, 3, 1}, at = {4, 100, -3, 0}, packed = {0, 2, 2, 5};
  check(must(dt::indexed(lengths, at, int_)));
  check(must(dt::hindexed(lengths, at, int_)));
  check(must(dt::indexed_block(2, at, double_)));
  check(must(dt::hindexed_block(3, at, char_)));
  check(must(dt::indexed({}, {}, int_)));
  check(must(dt::indexed_block(2, {}, int_)));
  EXPECT_TRUE(must(dt::indexed(lengths, packed, int_))->contiguous());
}

TEST_F(Constructors, Struct) {
  const std::vector<Count> lengths = {1, 1}, at = {0, 8};
  const std::vector<Datatype*> types = {&double_, &char_};
  const Type padded = must(dt::struct_(lengths, at, types));
  EXPECT_EQ(padded->size(), 9);
  EXPECT_EQ(padded->extent(), 16);
  EXPECT_EQ(padded->true_extent(), 9);
  EXPECT_EQ(padded->basic(), std::nullopt);
  check(padded);
  check(must(dt::struct_({}, {}, {})));
}

/// ADR 0024. The values are those of Open MPI; MPICH does not pad the extents, and agrees that a type
/// encloses the extents of its components.
TEST_F(Constructors, ExtentsEncloseThoseOfTheComponents) {
  const auto extent_of = [&](const Type& type) {
    check(type);
    return type->extent();
  };
  const Type odd = must(dt::hvector(3, 1, 5, int_));
  EXPECT_EQ(extent_of(odd), 16);
  EXPECT_EQ(odd->true_extent(), 14);
  EXPECT_EQ(extent_of(must(dt::contiguous(2, *odd))), 32);
  EXPECT_EQ(extent_of(must(dt::vector(2, 1, 2, *odd))), 48);
  EXPECT_EQ(extent_of(must(dt::hvector(2, 1, 7, *odd))), 24);
  EXPECT_EQ(extent_of(must(dt::hvector(2, 1, 9, *odd))), 28);  // the second component ends at 25
  const std::vector<Count> one_each = {1, 1}, at = {0, 8}, odd_at = {0, 9};
  const std::vector<Datatype*> types = {&double_, &char_};
  const Type padded = must(dt::struct_(one_each, at, types));
  EXPECT_EQ(extent_of(must(dt::hvector(2, 1, 9, *padded))), 32);
  EXPECT_EQ(extent_of(must(dt::hindexed(one_each, odd_at, *padded))), 32);
  EXPECT_EQ(extent_of(must(dt::contiguous(3, *padded))), 48);
}

TEST_F(Constructors, ResizedBoundsPropagate) {
  // MPI 5.0 section 5.1.7: explicit bounds determine the bounds of derived types.
  const Type odd = must(dt::resized(int_, -3, 9));
  EXPECT_EQ(odd->lb(), -3);
  EXPECT_EQ(odd->ub(), 6);
  const Type two = must(dt::contiguous(2, *odd));
  EXPECT_EQ(two->lb(), -3);
  EXPECT_EQ(two->extent(), 18);
  check(two);
  const Type backwards = must(dt::resized(int_, 6, -9));
  const Type three = must(dt::contiguous(3, *backwards));
  EXPECT_EQ(three->lb(), -12);
  EXPECT_EQ(three->extent(), 9);
  check(three);
  const std::vector<Count> lengths = {1, 1}, at = {-50, 0};
  const std::vector<Datatype*> types = {&double_, odd.get()};
  const Type mixed = must(dt::struct_(lengths, at, types));
  EXPECT_EQ(mixed->lb(), -3);
  EXPECT_EQ(mixed->true_lb(), -50);
  check(mixed);
}

TEST_F(Constructors, Subarray) {
  const std::vector<Count> sizes = {4, 5, 6}, subsizes = {2, 3, 4}, starts = {1, 0, 2};
  for (const auto order : {dt::Order::c, dt::Order::fortran}) {
    const Type part = must(dt::subarray(sizes, subsizes, starts, order, double_));
    EXPECT_EQ(part->lb(), 0);
    EXPECT_EQ(part->extent(), 4 * 5 * 6 * 8);
    EXPECT_TRUE(part->strided().has_value());
    check(part);
  }
  EXPECT_TRUE(must(dt::subarray(sizes, sizes, std::vector<Count>(3), dt::Order::c, int_))->contiguous());
}

TEST_F(Constructors, DarrayCoversTheArrayOnce) {
  const std::vector<Count> gsizes = {7, 10};
  const std::vector<int> distributions = {17, 18}, arguments = {19, 3}, psizes = {2, 3};
  std::vector<int> owners(70);
  for (int rank = 0; rank < 6; ++rank) {
    const Type mine =
        must(dt::darray({6, rank, gsizes, distributions, arguments, psizes, dt::Order::c}, int_));
    check(mine, 2);
    dt::for_each_run(*mine, 1, 0, mine->size(), [&](Count at, Count length) {
      for (Count i = at; i < at + length; i += 4) ++owners[static_cast<size_t>(i / 4)];
    });
  }
  EXPECT_EQ(owners, std::vector<int>(70, 1));
}

/// The default argument of the ABI is 19; compat passes blocks of 19 elements as another number.
TEST_F(Constructors, DarrayOfBlocksOf19Elements) {
  const std::vector<Count> gsizes = {38};
  const std::vector<int> cyclic = {18}, block = {17}, psizes = {2};
  for (const int rank : {0, 1}) {
    const auto make = [&](const std::vector<int>& how, int argument) {
      return must(dt::darray({2, rank, gsizes, how, std::vector<int>{argument}, psizes, dt::Order::c}, int_));
    };
    const Type one = make(cyclic, dt::kDefaultDistributionArgument);
    const Type nineteen = make(cyclic, dt::kDistributionArgument19);
    EXPECT_EQ(one->true_ub(), (38 - 1 + rank) * 4);
    EXPECT_TRUE(nineteen->layout()->kind == dt::Node::Kind::run);
    EXPECT_EQ(nineteen->true_lb(), rank * 19 * 4);
    EXPECT_EQ(nineteen->size(), 19 * 4);
    EXPECT_EQ(make(block, dt::kDistributionArgument19)->true_lb(), rank * 19 * 4);
  }
}

/// Arrays whose blocks of all processes together exceed 64 bits.
TEST_F(Constructors, DarrayOfTheLargestArray) {
  const Count most = std::numeric_limits<Count>::max();
  const std::vector<Count> gsizes = {most};
  const std::vector<int> block = {17}, standard = {19};
  for (const int processes : {2, 3, 1 << 20}) {
    Count covered = 0;
    for (const int rank : {0, 1, processes - 1}) {
      const Type mine = must(
          dt::darray({processes, rank, gsizes, block, standard, std::vector<int>{processes}, dt::Order::c},
                     char_, dt::Width::wide));
      const Count share = most / processes + (most % processes != 0);
      EXPECT_EQ(mine->true_lb(), share * rank);
      EXPECT_EQ(mine->size(), std::min(share, most - share * rank));
      EXPECT_EQ(mine->extent(), most);
      covered = mine->true_ub();
    }
    EXPECT_EQ(covered, most);
  }
}

TEST_F(Constructors, WideCounts) {
  const Count huge = Count{1} << 33;
  const Type type = must(dt::vector(huge, 1, 2, char_, dt::Width::wide));
  EXPECT_EQ(type->size(), huge);
  EXPECT_EQ(type->extent(), 2 * huge - 1);
  EXPECT_EQ(type->contents().counts, (std::vector<Count>{huge, 1, 2}));
  EXPECT_TRUE(type->contents().integers.empty());
  std::vector<Count> seen;
  dt::for_each_run(*type, 1, huge - 2, 2, [&](Count at, Count) { seen.push_back(at); });
  EXPECT_EQ(seen, (std::vector<Count>{2 * huge - 4, 2 * huge - 2}));
}

TEST_F(Constructors, OverflowIsAnError) {
  const Count huge = Count{1} << 62;
  const Type large = must(dt::contiguous(huge, char_, dt::Width::wide));
  for (auto* make : {+[](Datatype& old) { return dt::contiguous(4, old); },
                     +[](Datatype& old) { return dt::vector(2, 1, 3, old); },
                     +[](Datatype& old) { return dt::hvector(3, 1, INT64_MAX / 2, old); },
                     +[](Datatype& old) { return dt::resized(old, INT64_MAX, 1); }}) {
    const DatatypeResult made = make(*large);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code(), Errc::value_too_large);
  }
}

TEST_F(Constructors, InvalidArguments) {
  EXPECT_EQ(dt::contiguous(-1, int_).error().code(), Errc::count);
  EXPECT_EQ(dt::vector(-1, 1, 1, int_).error().code(), Errc::count);
  EXPECT_EQ(dt::vector(1, -1, 1, int_).error().code(), Errc::arg);
  const std::vector<Count> one = {1}, minus = {-1}, two = {2};
  EXPECT_EQ(dt::indexed(minus, one, int_).error().code(), Errc::arg);
  EXPECT_EQ(dt::subarray(one, two, std::vector<Count>{0}, dt::Order::c, int_).error().code(), Errc::arg);
  EXPECT_EQ(dt::subarray(one, one, one, dt::Order::c, int_).error().code(), Errc::arg);
  EXPECT_EQ(dt::subarray(one, one, std::vector<Count>{0}, static_cast<dt::Order>(3), int_).error().code(),
            Errc::arg);
  const std::vector<int> block = {17}, standard = {19}, procs = {2};
  EXPECT_EQ(dt::darray({3, 0, two, block, standard, procs, dt::Order::c}, int_).error().code(), Errc::arg);
  EXPECT_EQ(dt::darray({2, 2, two, block, standard, procs, dt::Order::c}, int_).error().code(), Errc::arg);
}

TEST_F(Constructors, HandlesAndReferences) {
  Type inner = must(dt::contiguous(2, int_));
  Datatype* raw = inner.get();
  const Type outer = must(dt::vector(2, 1, 3, *raw));
  EXPECT_EQ(dt::find(raw->handle()), raw);
  const uintptr_t handle = raw->handle();
  inner.reset();  // the handle is closed; `outer` keeps the object alive
  EXPECT_EQ(dt::find(handle), nullptr);
  EXPECT_EQ(outer->contents().types[0], raw);
  raw->open_handle();  // MPI_Type_get_contents
  EXPECT_EQ(dt::find(handle), raw);
  raw->close_handle();
  check(outer);
}

TEST_F(Constructors, DupKeepsCommittedState) {
  const Type plain = must(dt::vector(2, 1, 3, int_));
  EXPECT_FALSE(must(dt::dup(*plain))->committed());
  plain->commit();
  const Type copy = must(dt::dup(*plain));
  EXPECT_TRUE(copy->committed());
  EXPECT_EQ(copy->contents().combiner, dt::Combiner::dup);
}

TEST_F(Constructors, CoalescesToStridedBlocks) {
  const Type row = must(dt::contiguous(6, double_));
  const auto rows = must(dt::hvector(4, 1, 64, *row))->strided();
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->dimensions, 1);
  EXPECT_EQ(rows->length, 48);
  const std::vector<Count> at = {0, 3, 6, 9};
  const auto regular = must(dt::indexed_block(1, at, int_))->strided();
  ASSERT_TRUE(regular.has_value());
  EXPECT_EQ(regular->stride[0], 12);
  const std::vector<Count> irregular = {0, 3, 7};
  EXPECT_FALSE(must(dt::indexed_block(1, irregular, int_))->strided().has_value());
  EXPECT_EQ(must(dt::vector(8, 1, 2, int_))->layout()->kind, dt::Node::Kind::repeat);
}

}  // namespace
}  // namespace weft::test
