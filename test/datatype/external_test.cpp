// SPDX-License-Identifier: BSD-3-Clause
// external32: every element of the type map is stored in big-endian order; the conversion back restores it.
#include "datatype/external.hpp"

#include <algorithm>
#include <limits>

#include "datatype/f90.hpp"
#include "datatype/support.hpp"

namespace weft::test {
namespace {

namespace dt = weft::datatype;

TEST(External, ReversesTheBytesOfEveryElement) {
  const std::vector<Count> lengths = {3, 1, 2, 1}, at = {40, 8, 16, 0};
  const std::vector<Datatype*> types = {&basic(Basic::int8), &basic(Basic::float64), &basic(Basic::short_int),
                                        &basic(Basic::int16)};
  const Type record = must(dt::struct_(lengths, at, types));
  const Type type = must(dt::vector(3, 2, 3, *record));
  const reference::TypeMap map = reference::typemap(*type);
  const Count count = 2;
  std::vector<unsigned char> memory(static_cast<size_t>(count * type->extent())), expected,
      back(memory.size());
  Random random(11);
  for (auto& byte : memory) byte = static_cast<unsigned char>(random());
  for (Count i = 0; i < count; ++i)
    for (const auto& element : map.elements) {
      const auto* first = memory.data() + i * map.extent() + element.displacement;
      expected.insert(expected.end(), std::reverse_iterator(first + element.size),
                      std::reverse_iterator(first));
    }
  const auto size = dt::external_size(*type, count);
  ASSERT_TRUE(size.ok());
  ASSERT_EQ(*size, static_cast<Count>(expected.size()));
  std::vector<unsigned char> stream(expected.size());
  ASSERT_TRUE(dt::pack_external(*type, count, memory.data(), stream.data()).ok());
  EXPECT_EQ(stream, expected);
  ASSERT_TRUE(dt::unpack_external(*type, count, back.data(), stream.data()).ok());
  for (const Count byte : reference::byte_map(map, count))
    ASSERT_EQ(back[static_cast<size_t>(byte)], memory[static_cast<size_t>(byte)]) << byte;
}

TEST(External, SizesOfTheStandard) {
  const auto size_of = [](uintptr_t handle) { return *dt::external_size(*dt::predefined(handle), 1); };
  EXPECT_EQ(size_of(0x20a), 4);   // MPI_LONG
  EXPECT_EQ(size_of(0x258), 8);   // MPI_INT64_T
  EXPECT_EQ(size_of(0x22a), 8);   // MPI_LONG_INT
  EXPECT_EQ(size_of(0x220), 16);  // MPI_LONG_DOUBLE
  EXPECT_EQ(size_of(0x224), 32);  // MPI_C_LONG_DOUBLE_COMPLEX
  EXPECT_EQ(size_of(0x23c), 2);   // MPI_WCHAR
  EXPECT_EQ(size_of(0x22c), 6);   // MPI_SHORT_INT
}

TEST(External, RefusesIntegersThatDoNotFit) {
  const auto packs = [](uintptr_t handle, auto value) {
    char stream[16];
    return dt::pack_external(*dt::predefined(handle), 1, &value, stream).ok();
  };
  const long bound = 1L << 31;
  EXPECT_TRUE(packs(0x20a, bound - 1));  // MPI_LONG
  EXPECT_TRUE(packs(0x20a, -bound));
  EXPECT_FALSE(packs(0x20a, bound));
  EXPECT_FALSE(packs(0x20a, -bound - 1));
  EXPECT_TRUE(packs(0x20e, 2UL * bound - 1));  // MPI_UNSIGNED_LONG
  EXPECT_FALSE(packs(0x20e, 2UL * bound));
  EXPECT_TRUE(packs(0x23c, L'\xffff'));  // MPI_WCHAR
  EXPECT_FALSE(packs(0x23c, L'\x10000'));
  EXPECT_TRUE(packs(0x258, INT64_MIN));  // MPI_INT64_T
}

TEST(F90, SmallestSufficientKind) {
  EXPECT_EQ((*dt::f90_real(6, 30))->basic(), Basic::float32);
  EXPECT_EQ((*dt::f90_real(6, 38))->basic(), Basic::float64);
  EXPECT_EQ((*dt::f90_real(dt::kUndefined, 37))->basic(), Basic::float32);
  // On ARM long double has these digits, too.
  const bool quadruple = std::numeric_limits<long double>::digits10 >= 30;
  EXPECT_EQ((*dt::f90_real(30, 100))->basic(), quadruple ? Basic::long_double : Basic::float128);
  EXPECT_EQ((*dt::f90_complex(15, dt::kUndefined))->basic(), Basic::complex_float64);
  EXPECT_EQ((*dt::f90_integer(9))->basic(), Basic::integer4);
  EXPECT_EQ((*dt::f90_integer(10))->basic(), Basic::integer8);
  EXPECT_EQ(*dt::f90_integer(9), *dt::f90_integer(9));
  EXPECT_TRUE((*dt::f90_integer(9))->predefined());
  EXPECT_EQ(dt::find((*dt::f90_integer(9))->handle()), *dt::f90_integer(9));
  EXPECT_FALSE(dt::f90_real(40, 1).ok());
  EXPECT_TRUE(dt::f90_real(dt::kUndefined, 4931).ok());  // RANGE of the largest kinds, by the smallest number
  EXPECT_FALSE(dt::f90_real(dt::kUndefined, 4932).ok());
  EXPECT_FALSE(dt::f90_complex(dt::kUndefined, 4932).ok());
  EXPECT_FALSE(dt::f90_real(dt::kUndefined, dt::kUndefined).ok());
}

}  // namespace
}  // namespace weft::test
