// SPDX-License-Identifier: BSD-3-Clause
// Products and quotients of single elements, for operations that scale the terms or the result of a sum.
// Computed in the wide type of base/element/convert.hpp and rounded once; host and GPU results are
// bit-identical. C++17.
#pragma once
#include "base/element/reduce.hpp"

namespace weft::element {

template <class T>
WEFT_HOST_DEVICE inline T multiply(T x, T factor) {
  return narrow<T>(Apply<ReduceOp::prod>::of(widen(x), widen(factor)));
}

namespace detail {

/// The type in which a number is divided: it holds all numbers of T, and the divisor.
template <class T>
struct Dividend {
  using type = T;
};
#define WEFT_X(narrow, wide) \
  template <>                \
  struct Dividend<narrow> {  \
    using type = wide;       \
  };
WEFT_X(int8_t, int64_t)
WEFT_X(int16_t, int64_t)
WEFT_X(int32_t, int64_t)
WEFT_X(uint8_t, uint64_t)
WEFT_X(uint16_t, uint64_t)
WEFT_X(uint32_t, uint64_t)
#undef WEFT_X

template <class T>
WEFT_HOST_DEVICE inline T quotient(T x, uint32_t divisor) {
  using D = typename Dividend<T>::type;
  return static_cast<T>(static_cast<D>(x) / static_cast<D>(divisor));
}
template <class T>
WEFT_HOST_DEVICE inline Complex<T> quotient(Complex<T> x, uint32_t divisor) {
  return {quotient(x.re, divisor), quotient(x.im, divisor)};
}

}  // namespace detail

/// x / divisor; integers are rounded towards zero.
template <class T>
WEFT_HOST_DEVICE inline T divide(T x, uint32_t divisor) {
  return narrow<T>(detail::quotient(widen(x), divisor));
}

}  // namespace weft::element
