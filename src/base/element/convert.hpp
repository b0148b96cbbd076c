// SPDX-License-Identifier: BSD-3-Clause
// Conversion to the type of computation: binary16, bfloat16 and 8-bit formats are computed in float, other
// types in themselves. Rounds to nearest even; host and GPU results are bit-identical.
#pragma once
#include <cstring>

#include "base/element/type.hpp"

namespace weft::element {
namespace detail {

template <class To, class From>
WEFT_HOST_DEVICE inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the sizes must be equal");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

constexpr uint16_t kNan16 = 0x7fff;  // canonical NaN of GPU conversions

WEFT_HOST_DEVICE inline uint32_t round_shift(uint32_t bits, int shift) {
  const uint32_t half = (1u << (shift - 1)) - 1 + ((bits >> shift) & 1);
  return (bits + half) >> shift;
}

/// float to binary16, round to nearest even (IEEE 754 section 4.3.1).
WEFT_HOST_DEVICE inline uint16_t half_bits(float value) {
  const auto bits = bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return kNan16;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and above
  if (magnitude >= 0x38800000)                        // normal; rounding may carry into infinity
    return static_cast<uint16_t>(sign | (round_shift(magnitude, 13) - (112u << 10)));
  if (magnitude < 0x33000000) return sign;  // below half of the smallest subnormal
  const int shift = 126 - static_cast<int>(magnitude >> 23);
  return static_cast<uint16_t>(sign | round_shift((magnitude & 0x7fffff) | 0x800000, shift));
}

WEFT_HOST_DEVICE inline float float_of_half(uint16_t half) {
#ifdef __CUDA_ARCH__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(half));
  return wide;
#else
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00) return bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400) return bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  const float magnitude = static_cast<float>(rest) * (1.0f / (1 << 24));
  return sign != 0 ? -magnitude : magnitude;
#endif
}

/// float to an 8-bit format of `mantissa` bits whose smallest normal number is 2^(1 - bias). `limit`: bits of
/// the smallest float that becomes `beyond`, without the sign. A carry of rounding reaches `beyond` by
/// itself. Without branches, which kernels would have sixteen times for each vector and operation.
template <int mantissa, int bias, uint32_t limit, uint8_t beyond>
WEFT_HOST_DEVICE inline uint8_t float8_bits(float value) {
  constexpr uint8_t kNan8 = 0x7f;
  constexpr uint32_t kSmallestNormal = (128u - bias) << 23;
  constexpr int kNothing = 26;  // shifts all bits out
  const auto bits = bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffff;
  const bool normal = magnitude >= kSmallestNormal;
  const int wanted = 151 - bias - mantissa - static_cast<int>(magnitude >> 23);
  const int shift = normal ? 23 - mantissa : wanted < kNothing ? wanted : kNothing;
  const uint32_t exact = normal ? magnitude - ((127u - bias) << 23) : (magnitude & 0x7fffff) | 0x800000;
  const uint32_t rounded = magnitude >= limit ? beyond : round_shift(exact, shift);
  return static_cast<uint8_t>(magnitude > 0x7f800000 ? kNan8 : sign | rounded);
}

/// With the bits of its exponent and mantissa in their places of binary16, a number is 2^-8 of itself.
WEFT_HOST_DEVICE inline float float_of_e4m3(uint8_t narrow) {
  const uint32_t sign = narrow & 0x80u, rest = narrow & 0x7fu;
  const float value = 256 * float_of_half(static_cast<uint16_t>(sign << 8 | rest << 7));
  return rest == 0x7f ? bit_cast<float>(sign << 24 | 0x7fc00000) : value;
}

}  // namespace detail

WEFT_HOST_DEVICE inline float widen(Float8E4M3 x) { return detail::float_of_e4m3(x.bits); }
/// E5M2 is the upper half of binary16.
WEFT_HOST_DEVICE inline float widen(Float8E5M2 x) {
  return detail::float_of_half(static_cast<uint16_t>(x.bits << 8));
}
WEFT_HOST_DEVICE inline float widen(Half x) { return detail::float_of_half(x.bits); }
WEFT_HOST_DEVICE inline float widen(BFloat16 x) {
  return detail::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
template <class T>
WEFT_HOST_DEVICE constexpr T widen(T x) {
  return x;
}
WEFT_HOST_DEVICE inline Complex<float> widen(Complex<Half> x) { return {widen(x.re), widen(x.im)}; }

/// Result type of widen().
template <class T>
using Wide = decltype(widen(T{}));

template <class T>
struct Narrow {
  WEFT_HOST_DEVICE static constexpr T of(T x) { return x; }
};
template <>
struct Narrow<Half> {
  WEFT_HOST_DEVICE static Half of(float x) {
#ifdef __CUDA_ARCH__
    Half narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
#else
    return {detail::half_bits(x)};
#endif
  }
};
template <>
struct Narrow<BFloat16> {
  WEFT_HOST_DEVICE static BFloat16 of(float x) {
    const auto bits = detail::bit_cast<uint32_t>(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return {detail::kNan16};
    return {static_cast<uint16_t>(detail::round_shift(bits, 16))};
  }
};
/// From 464 on, which is nearer to 480 than to 448, there is only NaN.
template <>
struct Narrow<Float8E4M3> {
  WEFT_HOST_DEVICE static Float8E4M3 of(float x) { return {detail::float8_bits<3, 7, 0x43f00000, 0x7f>(x)}; }
};
template <>
struct Narrow<Float8E5M2> {
  WEFT_HOST_DEVICE static Float8E5M2 of(float x) { return {detail::float8_bits<2, 15, 0x47800000, 0x7c>(x)}; }
};
template <>
struct Narrow<Complex<Half>> {
  WEFT_HOST_DEVICE static Complex<Half> of(Complex<float> x) {
    return {Narrow<Half>::of(x.re), Narrow<Half>::of(x.im)};
  }
};
/// Inverse of widen(), with rounding.
template <class T>
WEFT_HOST_DEVICE T narrow(Wide<T> x) {
  return Narrow<T>::of(x);
}

}  // namespace weft::element
