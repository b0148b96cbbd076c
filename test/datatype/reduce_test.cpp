// SPDX-License-Identifier: BSD-3-Clause
// Every (operation, type) pair: allowed as in MPI 5.0 section 6.9.2, and equal to a naive evaluation at
// several alignments.
#include "datatype/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace weft::test {
namespace {

using namespace weft::datatype;  // NOLINT: the names under test

constexpr ReduceOp kAll[] = {ReduceOp::sum,     ReduceOp::min,  ReduceOp::max,    ReduceOp::prod,
                             ReduceOp::band,    ReduceOp::bor,  ReduceOp::bxor,   ReduceOp::land,
                             ReduceOp::lor,     ReduceOp::lxor, ReduceOp::minloc, ReduceOp::maxloc,
                             ReduceOp::replace, ReduceOp::no_op};

std::set<std::string> allowed_on(Basic basic) {
  std::set<std::string> names;
  for (const ReduceOp op : kAll)
    if (reduce_function(op, basic) != nullptr) names.insert(name(op));
  return names;
}

/// Independent copy of the standard's table; multi-language types count as C integers.
TEST(Reduce, AllowedPairs) {
  const std::set<std::string> c_integer = {"sum",  "min",  "max", "prod", "band",    "bor",
                                           "bxor", "land", "lor", "lxor", "replace", "no_op"};
  const std::set<std::string> other_integer = {"sum", "min",  "max",     "prod", "band",
                                               "bor", "bxor", "replace", "no_op"};
  const std::set<std::string> floating = {"sum", "min", "max", "prod", "replace", "no_op"};
  const std::set<std::string> complex = {"sum", "prod", "replace", "no_op"};
  const std::set<std::string> logical = {"land", "lor", "lxor", "replace", "no_op"};
  const std::set<std::string> byte = {"band", "bor", "bxor", "replace", "no_op"};
  const std::set<std::string> pair = {"minloc", "maxloc", "replace", "no_op"};
  const std::set<std::string> none = {"replace", "no_op"};
  for (const Basic b : {Basic::int8, Basic::int16, Basic::int32, Basic::int64, Basic::uint8, Basic::uint16,
                        Basic::uint32, Basic::uint64, Basic::aint, Basic::count, Basic::offset})
    EXPECT_EQ(allowed_on(b), c_integer) << traits_of(b).name;
  for (const Basic b : {Basic::integer1, Basic::integer2, Basic::integer4, Basic::integer8, Basic::integer16})
    EXPECT_EQ(allowed_on(b), other_integer) << traits_of(b).name;
  for (const Basic b : {Basic::float16, Basic::bfloat16, Basic::float8_e4m3, Basic::float8_e5m2,
                        Basic::float32, Basic::float64, Basic::long_double, Basic::float128})
    EXPECT_EQ(allowed_on(b), floating) << traits_of(b).name;
  for (const Basic b : {Basic::complex_float16, Basic::complex_float32, Basic::complex_float64,
                        Basic::complex_long_double, Basic::complex_float128})
    EXPECT_EQ(allowed_on(b), complex) << traits_of(b).name;
  for (const Basic b :
       {Basic::c_bool, Basic::logical1, Basic::logical2, Basic::logical4, Basic::logical8, Basic::logical16})
    EXPECT_EQ(allowed_on(b), logical) << traits_of(b).name;
  EXPECT_EQ(allowed_on(Basic::byte), byte);
  for (const Basic b :
       {Basic::float_int, Basic::double_int, Basic::long_int, Basic::two_int, Basic::short_int,
        Basic::long_double_int, Basic::two_real, Basic::two_double_precision, Basic::two_integer})
    EXPECT_EQ(allowed_on(b), pair) << traits_of(b).name;
  for (const Basic b : {Basic::wide_character, Basic::packed})
    EXPECT_EQ(allowed_on(b), none) << traits_of(b).name;
}

constexpr size_t kElements = 259;  // not a multiple of any vector length

/// Runs the operation at an odd address; both arrays start `shift` bytes into their buffers.
template <class T>
void run(ReduceFn function, const std::vector<T>& in, std::vector<T>& inout, size_t shift) {
  std::vector<char> a(sizeof(T) * in.size() + shift + 1, 0x55), b = a;
  std::memcpy(a.data() + shift, in.data(), sizeof(T) * in.size());
  std::memcpy(b.data() + shift, inout.data(), sizeof(T) * in.size());
  std::vector<char> c(b.size(), 0x66);
  function(a.data() + shift, b.data() + shift, c.data() + shift, in.size());
  function(a.data() + shift, b.data() + shift, b.data() + shift, in.size());
  constexpr bool padded = std::is_same_v<T, long double> || std::is_same_v<T, Complex<long double>>;
  for (size_t i = 0; i < sizeof(T) * in.size(); ++i)
    if (!padded || i % sizeof(long double) < 10) {
      ASSERT_EQ(c[shift + i], b[shift + i]) << i;
    }
  std::memcpy(inout.data(), b.data() + shift, sizeof(T) * in.size());
  EXPECT_EQ(b.back(), 0x55);
}

template <class T>
T naive(ReduceOp op, T a, T b) {
  const auto bits = [](T x) { return static_cast<unsigned long long>(x); };
  switch (op) {
    case ReduceOp::sum:
      return static_cast<T>(bits(a) + bits(b));
    case ReduceOp::prod:
      return static_cast<T>(bits(a) * bits(b));
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<T>(bits(a) & bits(b));
    case ReduceOp::bor:
      return static_cast<T>(bits(a) | bits(b));
    case ReduceOp::bxor:
      return static_cast<T>(bits(a) ^ bits(b));
    case ReduceOp::land:
      return static_cast<T>(a && b);
    case ReduceOp::lor:
      return static_cast<T>(a || b);
    case ReduceOp::lxor:
      return static_cast<T>(!a != !b);
    case ReduceOp::replace:
      return a;
    default:
      return b;
  }
}

template <class T>
void check_integers(Basic basic) {
  std::mt19937_64 random(static_cast<unsigned>(basic));
  for (const ReduceOp op : kAll) {
    const ReduceFn function = reduce_function(op, basic);
    if (function == nullptr) continue;
    for (const size_t shift : {0, 1, 3}) {
      std::vector<T> in(kElements), inout(kElements), expected;
      for (size_t i = 0; i < kElements; ++i) {
        in[i] = static_cast<T>(i % 5 == 0 ? 0 : random());
        inout[i] = static_cast<T>(i % 3 == 0 ? 0 : random());
        expected.push_back(naive(op, in[i], inout[i]));
      }
      run(function, in, inout, shift);
      EXPECT_EQ(inout, expected) << name(op) << ' ' << traits_of(basic).name << " shifted by " << shift;
    }
  }
}

TEST(Reduce, Integers) {
  check_integers<int8_t>(Basic::int8);
  check_integers<int16_t>(Basic::int16);
  check_integers<int32_t>(Basic::int32);
  check_integers<int64_t>(Basic::int64);
  check_integers<uint8_t>(Basic::uint8);
  check_integers<uint16_t>(Basic::uint16);
  check_integers<uint32_t>(Basic::uint32);
  check_integers<uint64_t>(Basic::uint64);
  check_integers<int8_t>(Basic::integer1);
  check_integers<int16_t>(Basic::integer2);
  check_integers<int32_t>(Basic::integer4);
  check_integers<int64_t>(Basic::integer8);
  check_integers<int64_t>(Basic::aint);
  check_integers<int64_t>(Basic::count);
  check_integers<int64_t>(Basic::offset);
  check_integers<uint8_t>(Basic::byte);
  check_integers<uint8_t>(Basic::c_bool);
  check_integers<int8_t>(Basic::logical1);
  check_integers<int16_t>(Basic::logical2);
  check_integers<int32_t>(Basic::logical4);
  check_integers<int64_t>(Basic::logical8);
}

template <class T>
void check_floats(Basic basic) {
  std::mt19937_64 random(1);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
    for (const size_t shift : {0, 1}) {
      std::vector<T> in(kElements), inout(kElements), expected;
      for (size_t i = 0; i < kElements; ++i) {
        const T a = in[i] = static_cast<T>(static_cast<int64_t>(random() % 2001) - 1000) / 8;
        const T b = inout[i] = static_cast<T>(static_cast<int64_t>(random() % 2001) - 1000) / 8;
        expected.push_back(op == ReduceOp::sum    ? a + b
                           : op == ReduceOp::prod ? a * b
                           : op == ReduceOp::min  ? (b < a ? b : a)
                                                  : (a < b ? b : a));
      }
      run(reduce_function(op, basic), in, inout, shift);
      for (size_t i = 0; i < kElements; ++i)
        ASSERT_TRUE(inout[i] == expected[i]) << name(op) << ' ' << traits_of(basic).name << " element " << i;
    }
  }
}

TEST(Reduce, Floats) {
  check_floats<float>(Basic::float32);
  check_floats<double>(Basic::float64);
  check_floats<long double>(Basic::long_double);
  check_floats<Float128>(Basic::float128);
}

/// All levels of vector instructions of this processor give the bits of level 0.
template <class T>
void check_levels(Basic basic) {
  std::mt19937_64 random(2);
  std::vector<T> in(kElements), start(kElements);
  for (std::vector<T>* values : {&in, &start})
    for (T& value : *values) {
      if constexpr (std::is_integral_v<T>)
        value = static_cast<T>(random());
      else
        value = static_cast<T>(static_cast<int64_t>(random() % 2000001) - 1000000) / 7;
    }
  for (const ReduceOp op : kAll) {
    if (reduce_function(op, basic) == nullptr) continue;
    EXPECT_EQ(reduce_function(op, basic), reduce_function_for(vector_levels() - 1, op, basic));
    for (const size_t shift : {0, 1}) {
      auto expected = start;
      run(reduce_function_for(0, op, basic), in, expected, shift);
      for (size_t level = 1; level < vector_levels(); ++level) {
        auto inout = start;
        run(reduce_function_for(level, op, basic), in, inout, shift);
        EXPECT_EQ(std::memcmp(inout.data(), expected.data(), kElements * sizeof(T)), 0)
            << name(op) << ' ' << traits_of(basic).name << " level " << level;
      }
    }
  }
}

TEST(Reduce, Levels) {
  check_levels<int8_t>(Basic::int8);
  check_levels<int16_t>(Basic::int16);
  check_levels<int32_t>(Basic::int32);
  check_levels<int64_t>(Basic::int64);
  check_levels<uint8_t>(Basic::uint8);
  check_levels<uint16_t>(Basic::uint16);
  check_levels<uint32_t>(Basic::uint32);
  check_levels<uint64_t>(Basic::uint64);
  check_levels<uint8_t>(Basic::c_bool);
  check_levels<float>(Basic::float32);
  check_levels<double>(Basic::float64);
}

template <class T>
void check_complex(Basic basic) {
  std::vector<Complex<T>> in(kElements), start(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    in[i] = {static_cast<T>(i % 17) - 8, static_cast<T>(i % 5) / 2};
    start[i] = {static_cast<T>(i % 13) / 4, static_cast<T>(i % 7) - 3};
  }
  for (const size_t shift : {0, 1}) {
    auto sums = start, products = start;
    run(reduce_function(ReduceOp::sum, basic), in, sums, shift);
    run(reduce_function(ReduceOp::prod, basic), in, products, shift);
    for (size_t i = 0; i < kElements; ++i) {
      const Complex<T> a = in[i], b = start[i];
      ASSERT_TRUE(sums[i].re == a.re + b.re && sums[i].im == a.im + b.im) << i;
      ASSERT_TRUE(products[i].re == a.re * b.re - a.im * b.im) << i;
      ASSERT_TRUE(products[i].im == a.re * b.im + a.im * b.re) << i;
    }
  }
}

TEST(Reduce, Complex) {
  check_complex<float>(Basic::complex_float32);
  check_complex<double>(Basic::complex_float64);
  check_complex<long double>(Basic::complex_long_double);
  check_complex<Float128>(Basic::complex_float128);
}

TEST(Reduce, Wide128) {
  const Int128 big = static_cast<Int128>(1) << 100;
  std::vector<Int128> in = {big, 3, -big}, inout = {big, -4, 1};
  run(reduce_function(ReduceOp::sum, Basic::integer16), in, inout, 1);
  EXPECT_TRUE(inout[0] == 2 * big && inout[1] == -1 && inout[2] == 1 - big);
  in = {big, 0, 0}, inout = {1, 1, 0};
  run(reduce_function(ReduceOp::lxor, Basic::logical16), in, inout, 1);
  EXPECT_TRUE(inout[0] == 0 && inout[1] == 1 && inout[2] == 0);
}

template <class V, class I>
void check_pairs(Basic basic) {
  using P = Pair<V, I>;
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc, ReduceOp::replace}) {
    const size_t n = 25;
    std::vector<unsigned char> a(n * sizeof(P) + 1, 0xAA), b(n * sizeof(P) + 1, 0xBB);
    const auto put = [](unsigned char* at, V value, I index) {
      std::memcpy(at, &value, sizeof value);
      std::memcpy(at + offsetof(P, index), &index, sizeof index);
    };
    std::vector<unsigned char> expected = b;
    for (size_t i = 0; i < n; ++i) {  // equal values on the diagonal; opposite index orders
      const V va = static_cast<V>(i % 5), vb = static_cast<V>(i / 5);
      const I ia = static_cast<I>(i), ib = static_cast<I>(24 - i);
      const bool better = op == ReduceOp::minloc ? va < vb : va > vb;
      const bool first = op == ReduceOp::replace || better || (va == vb && ia < ib);
      put(a.data() + 1 + i * sizeof(P), va, ia);
      put(b.data() + 1 + i * sizeof(P), vb, ib);
      put(expected.data() + 1 + i * sizeof(P), first ? va : vb, first ? ia : ib);
    }
    // Compare values, not bytes: long double has unused bytes.
    reduce_function(op, basic)(a.data() + 1, b.data() + 1, b.data() + 1, n);
    for (size_t i = 0; i < n; ++i) {
      V value, wanted;
      I index, wanted_index;
      const size_t at = 1 + i * sizeof(P);
      std::memcpy(&value, b.data() + at, sizeof value);
      std::memcpy(&wanted, expected.data() + at, sizeof value);
      std::memcpy(&index, b.data() + at + offsetof(P, index), sizeof index);
      std::memcpy(&wanted_index, expected.data() + at + offsetof(P, index), sizeof index);
      EXPECT_EQ(value, wanted) << name(op) << ' ' << traits_of(basic).name << ' ' << i;
      EXPECT_EQ(index, wanted_index) << name(op) << ' ' << traits_of(basic).name << ' ' << i;
      for (size_t pad = offsetof(P, index) + sizeof(I); pad < sizeof(P); ++pad)
        EXPECT_EQ(b[at + pad], 0xBB) << "padding was written";
    }
  }
}

TEST(Reduce, Pairs) {
  check_pairs<float, int>(Basic::float_int);
  check_pairs<double, int>(Basic::double_int);
  check_pairs<long, int>(Basic::long_int);
  check_pairs<int, int>(Basic::two_int);
  check_pairs<short, int>(Basic::short_int);
  check_pairs<long double, int>(Basic::long_double_int);
  check_pairs<float, float>(Basic::two_real);
  check_pairs<double, double>(Basic::two_double_precision);
  check_pairs<int, int>(Basic::two_integer);
}

/// Products of all pairs of special numbers are those of the C compiler (Annex G), also at the same address.
template <class T, class C>
void check_complex_products(Basic basic) {
  using Limits = std::numeric_limits<T>;
  constexpr T kInfinity = Limits::infinity();
  const T parts[] = {0,
                     -T(0),
                     1,
                     -2.5,
                     kInfinity,
                     -kInfinity,
                     Limits::quiet_NaN(),
                     Limits::max(),
                     -Limits::max(),
                     Limits::min()};
  std::vector<std::array<T, 2>> left, right, both;
  for (const T a : parts)
    for (const T b : parts)
      for (const T c : parts)
        for (const T d : parts) left.push_back({a, b}), right.push_back({c, d});
  both = right;
  const auto same = [](T a, T b) {
    return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b));
  };
  for (size_t level = 0; level < vector_levels(); ++level) {
    both = right;
    reduce_function_for(level, ReduceOp::prod, basic)(left.data(), both.data(), both.data(), both.size());
    for (size_t i = 0; i < both.size(); ++i) {
      C x, y;
      std::memcpy(&x, &left[i], sizeof x);
      std::memcpy(&y, &right[i], sizeof y);
      const C z = x * y;
      ASSERT_TRUE(same(both[i][0], __real__ z) && same(both[i][1], __imag__ z))
          << traits_of(basic).name << " (" << left[i][0] << ", " << left[i][1] << ") * (" << right[i][0]
          << ", " << right[i][1] << ") = (" << both[i][0] << ", " << both[i][1] << ')';
    }
  }
}

TEST(Reduce, ComplexProductsOfInfinities) {
  check_complex_products<float, __complex__ float>(Basic::complex_float32);
  check_complex_products<double, __complex__ double>(Basic::complex_float64);
  check_complex_products<long double, __complex__ long double>(Basic::complex_long_double);
}

TEST(Reduce, NoOpAndEmptyArraysChangeNothing) {
  double in = 1, inout = 2;
  reduce_function(ReduceOp::no_op, Basic::float64)(&in, &inout, &inout, 1);
  reduce_function(ReduceOp::sum, Basic::float64)(&in, &inout, &inout, 0);
  EXPECT_EQ(inout, 2);
}

}  // namespace
}  // namespace weft::test
