// SPDX-License-Identifier: BSD-3-Clause
// The vector reductions of the GPU kernels, run on the host: bit-identical to the host loops for every
// operation and type; half-precision conversion against the compiler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "datatype/reduce.hpp"
#include "device/kernel/element.hpp"

namespace weft::test {
namespace {

using device::kernel::Reduction;
using device::kernel::Vec16;
using element::Basic;
using element::ReduceOp;

constexpr int kBytes = 16;

/// a op b.
Vec16 combine(Reduction reduction, const Vec16& a, const Vec16& b) {
  const Vec16 both[] = {a, b};
  return fold_loaded(reduction, 2, both);
}

/// Random values without NaN: NaN payloads are unspecified.
template <class T>
void draw(T& value, std::mt19937_64& random) {
  for (size_t i = 0; i < sizeof value; ++i) reinterpret_cast<unsigned char*>(&value)[i] = random() & 0xff;
}
void draw(float& value, std::mt19937_64& random) {
  value = std::ldexp(static_cast<float>(random() % 20001) - 10000, static_cast<int>(random() % 40) - 20);
}
void draw(double& value, std::mt19937_64& random) {
  value = std::ldexp(static_cast<double>(random() % 20001) - 10000, static_cast<int>(random() % 40) - 20);
}
void draw(element::Half& value, std::mt19937_64& random) {
  value.bits = static_cast<uint16_t>(random() & 0xbfff);  // avoids the largest exponents
}
void draw(element::BFloat16& value, std::mt19937_64& random) {
  value.bits = static_cast<uint16_t>(0x3c00 + random() % 0x800) | static_cast<uint16_t>(random() & 0x8000);
}
template <class T>
void draw(element::Complex<T>& value, std::mt19937_64& random) {
  draw(value.re, random);
  draw(value.im, random);
}
template <class V, class I>
void draw(element::Pair<V, I>& value, std::mt19937_64& random) {
  value.value = static_cast<V>(random() % 3);  // many ties
  value.index = static_cast<I>(random() % 3);
}

template <class T>
Vec16 draw_vec16(std::mt19937_64& random) {
  T values[kBytes / sizeof(T)];
  std::memset(values, 0x5a, sizeof values);
  for (T& value : values) draw(value, random);
  Vec16 vec;
  std::memcpy(&vec, values, kBytes);
  return vec;
}

/// Compares the data bytes given by the mask.
void expect_same(const Vec16& a, const Vec16& b, uint32_t data, const std::string& what) {
  unsigned char x[kBytes], y[kBytes];
  std::memcpy(x, &a, kBytes);
  std::memcpy(y, &b, kBytes);
  for (int i = 0; i < kBytes; ++i)
    if ((data >> i) & 1) {
      EXPECT_EQ(x[i], y[i]) << what << ", byte " << i;
    }
}

template <class T>
void check(ReduceOp op, Basic basic) {
  if constexpr (sizeof(T) <= kBytes) {
    const Reduction reduction = device::kernel::reduction_of(op, datatype::reduction_type(basic));
    const datatype::ReduceFn function = datatype::reduce_function(op, basic);
    const std::string what = std::string(datatype::name(op)) + ' ' + datatype::traits_of(basic).name;
    ASSERT_EQ(reduction.defined(), function != nullptr) << what;
    if (function == nullptr) return;
    EXPECT_EQ(static_cast<int64_t>(sizeof(T)) % element_size(reduction.element), 0) << what;
    std::mt19937_64 random(static_cast<unsigned>(basic));
    for (int i = 0; i < 200; ++i) {
      const Vec16 a = draw_vec16<T>(random), b = draw_vec16<T>(random);
      Vec16 expected{};
      function(&a, &b, &expected, kBytes / sizeof(T));
      expect_same(combine(reduction, a, b), expected, data_bytes(reduction.element), what);
    }
  }
}

bool host_only(Basic basic) {
  return basic == Basic::long_double || basic == Basic::float128 || basic == Basic::complex_long_double ||
         basic == Basic::complex_float128 || basic == Basic::long_double_int;
}

TEST(Vec16, EveryOperationAndTypeMatchesTheHost) {
  for (int op = 0; op < element::kReduceOpCount; ++op) {
#define WEFT_X(name, type, group) \
  if (!host_only(Basic::name)) check<type>(static_cast<ReduceOp>(op), Basic::name);
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  }
}

/// Complex products of infinities are those of the host, which are the compiler's.
template <class T>
void check_infinite_products(Basic basic) {
  constexpr T kParts[] = {0, -1, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
                          std::numeric_limits<T>::max()};
  constexpr int kPairs = kBytes / sizeof(element::Complex<T>);
  const Reduction product = device::kernel::reduction_of(ReduceOp::prod, basic);
  int infinite = 0;
  for (const T a : kParts)
    for (const T b : kParts)
      for (const T c : kParts)
        for (const T d : kParts) {
          T left[2 * kPairs], right[2 * kPairs], expected[2 * kPairs], found[2 * kPairs];
          for (int i = 0; i < kPairs; ++i) {
            left[2 * i] = a, left[2 * i + 1] = b;
            right[2 * i] = c, right[2 * i + 1] = d;
          }
          Vec16 x, y;
          std::memcpy(&x, left, kBytes);
          std::memcpy(&y, right, kBytes);
          datatype::reduce_function(ReduceOp::prod, basic)(left, right, expected, kPairs);
          const Vec16 z = combine(product, x, y);
          std::memcpy(found, &z, kBytes);
          for (int i = 0; i < 2 * kPairs; ++i)
            EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
                << a << ' ' << b << ' ' << c << ' ' << d;
          infinite += std::isinf(found[0]) || std::isinf(found[1]) ? 1 : 0;
        }
  EXPECT_GT(infinite, 300);
}

TEST(Vec16, ComplexProductsOfInfinities) {
  check_infinite_products<float>(Basic::complex_float32);
  check_infinite_products<double>(Basic::complex_float64);
}

TEST(Vec16, WideTypesAreHostOnly) {
  for (int i = 0; i < element::kBasicCount; ++i) {
    const Basic basic = static_cast<Basic>(i);
    if (!host_only(basic)) continue;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::prod, ReduceOp::minloc})
      EXPECT_FALSE(device::kernel::reduction_of(op, datatype::reduction_type(basic)).defined())
          << datatype::traits_of(basic).name;
  }
}

TEST(Vec16, ManyTermsOfHalfPrecisionRoundOnce) {
  const Reduction sum = device::kernel::reduction_of(ReduceOp::sum, Basic::float16);
  const auto fill = [](float value) {
    element::Half lanes[8];
    for (element::Half& lane : lanes) lane = element::narrow<element::Half>(value);
    Vec16 vec;
    std::memcpy(&vec, lanes, kBytes);
    return vec;
  };
  // In half precision 2048 + 1 rounds to 2048, but 2048 + 1 + 1 is 2050: only the result is rounded.
  const Vec16 terms[] = {fill(2048), fill(1), fill(1)};
  expect_same(fold_loaded(sum, 3, terms), fill(2050), 0xffff, "loaded");
  expect_same(fold(sum, 3, [&](int i) { return terms[i]; }), fill(2050), 0xffff, "fetched");
  expect_same(fold_loaded(sum, 2, terms), fill(2048), 0xffff, "two");
}

#ifdef __FLT16_MAX__
#ifdef __aarch64__
using CompilersHalf = __fp16;  // g++ 12 has no _Float16 there
#else
using CompilersHalf = _Float16;
#endif
TEST(Vec16, HalfPrecisionMatchesTheCompiler) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const element::Half half{static_cast<uint16_t>(bits)};
    CompilersHalf known;
    std::memcpy(&known, &half, sizeof known);
    const float wide = element::widen(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE((bits & 0x7fff) > 0x7c00);
      continue;
    }
    ASSERT_EQ(wide, static_cast<float>(known)) << bits;
    ASSERT_EQ(element::narrow<element::Half>(wide).bits, bits);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 2000000; ++i) {
    // Exponents of half precision and slightly beyond; half of the values at or near a tie.
    uint32_t bits = (90 + random() % 60) << 23 | (random() & 0x807fffff);
    if (i % 2 == 0) bits = (bits & ~0x1fffu) | 0x1000 | (random() % 3 == 0 ? 1 : 0);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    const auto known = static_cast<CompilersHalf>(value);
    uint16_t expected;
    std::memcpy(&expected, &known, sizeof expected);
    ASSERT_EQ(element::narrow<element::Half>(value).bits, expected) << value;
  }
}
#endif

TEST(Vec16, BFloat16RoundsToNearestEven) {
  const auto round = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return element::narrow<element::BFloat16>(value).bits;
  };
  EXPECT_EQ(round(0x3f800000), 0x3f80);
  EXPECT_EQ(round(0x3f808000), 0x3f80);  // tie to even
  EXPECT_EQ(round(0x3f818000), 0x3f82);
  EXPECT_EQ(round(0x3f808001), 0x3f81);
  EXPECT_EQ(round(0x7f7fffff), 0x7f80);  // up to infinity
  EXPECT_EQ(round(0xff800000), 0xff80);
  EXPECT_EQ(round(0xffc00001), 0x7fff);  // not a number
  EXPECT_EQ(round(0x00000001), 0);
}

/// The bits of the nearest number of an 8-bit format, of two equally near ones the even; `beyond` from half
/// an interval above the largest number on.
template <class T>
uint8_t nearest(float value, uint8_t beyond) {
  const double magnitude = std::fabs(static_cast<double>(value));
  uint8_t found = 0;
  double least = std::numeric_limits<double>::infinity(), largest = 0, interval = 0;
  for (int bits = 0; bits < 0x80; ++bits) {
    const double candidate = element::widen(T{static_cast<uint8_t>(bits)});
    if (!std::isfinite(candidate)) break;
    interval = candidate - largest;
    largest = candidate;
    const double distance = std::fabs(candidate - magnitude);
    if (distance > least || (distance == least && bits % 2 != 0)) continue;
    least = distance;
    found = static_cast<uint8_t>(bits);
  }
  const double limit = largest + interval / 2;
  if (magnitude > limit || (magnitude == limit && found % 2 != 0)) found = beyond;
  return static_cast<uint8_t>(found | (std::signbit(value) ? 0x80 : 0));
}

template <class T>
void check_float8(uint8_t beyond, double largest, double smallest) {
  double most = 0, least = 1;
  for (int bits = 0; bits < 0x100; ++bits) {
    const float wide = element::widen(T{static_cast<uint8_t>(bits)});
    if (std::isnan(wide)) {
      EXPECT_EQ(element::narrow<T>(wide).bits, 0x7f);
      continue;
    }
    EXPECT_EQ(element::narrow<T>(wide).bits, bits);
    if (std::isfinite(wide)) most = std::max(most, static_cast<double>(wide));
    if (wide > 0) least = std::min(least, static_cast<double>(wide));
  }
  EXPECT_EQ(most, largest);
  EXPECT_EQ(least, smallest);
  std::mt19937 random(8);
  for (int i = 0; i < 100000; ++i) {
    uint32_t bits = (105 + random() % 45) << 23 | (random() & 0x807fffff);  // half of the values near a tie
    if (i % 2 == 0) bits = (bits & ~0x7ffffu) | (random() % 3 == 0 ? 1 : 0);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    ASSERT_EQ(element::narrow<T>(value).bits, nearest<T>(value, beyond)) << value;
  }
  EXPECT_EQ(element::narrow<T>(std::numeric_limits<float>::infinity()).bits, beyond);
  EXPECT_EQ(element::narrow<T>(std::numeric_limits<float>::quiet_NaN()).bits, 0x7f);
}

TEST(Vec16, EightBitFormatsRoundToNearestEven) {
  check_float8<element::Float8E4M3>(0x7f, 448, std::ldexp(1.0, -9));
  check_float8<element::Float8E5M2>(0x7c, 57344, std::ldexp(1.0, -16));
}

}  // namespace
}  // namespace weft::test
