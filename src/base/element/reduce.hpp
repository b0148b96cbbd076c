// SPDX-License-Identifier: BSD-3-Clause
// Which operation is defined on which group of types, and what it computes on one element: the one table that
// the host loops, the GPU kernels and the tests are made from. Free of host calls. C++17.
#pragma once
#include "base/element/convert.hpp"

namespace weft::element {

enum class ReduceOp : uint8_t {
  sum,
  min,
  max,
  prod,
  band,
  bor,
  bxor,
  land,
  lor,
  lxor,
  minloc,
  maxloc,
  replace,
  no_op
};
constexpr int kReduceOps = 14;

/// MPI 5.0 section 6.9.2, table of operations and groups. One extension, as programs rely on it: logical
/// operations on the multi-language types, which are integers in C.
WEFT_HOST_DEVICE constexpr bool allowed(ReduceOp op, Group group) {
  const bool integer =
      group == Group::c_integer || group == Group::fortran_integer || group == Group::multi_language;
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::max:
      return integer || group == Group::floating;
    case ReduceOp::sum:
    case ReduceOp::prod:
      return integer || group == Group::floating || group == Group::complex;
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return group == Group::c_integer || group == Group::multi_language || group == Group::logical;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return integer || group == Group::byte;
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return group == Group::pair;
    case ReduceOp::replace:
    case ReduceOp::no_op:
      return true;
  }
  return false;
}

/// A product that is rounded before it is added to anything: fused, it would differ between CPU and GPU.
template <class T>
WEFT_HOST_DEVICE inline T rounded_product(T a, T b) {
  return a * b;
}
#ifdef __CUDA_ARCH__
template <>
__device__ inline float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}
template <>
__device__ inline double rounded_product(double a, double b) {
  return __dmul_rn(a, b);
}
#endif

template <class T>
WEFT_HOST_DEVICE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
WEFT_HOST_DEVICE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {rounded_product(a.re, b.re) - rounded_product(a.im, b.im),
          rounded_product(a.re, b.im) + rounded_product(a.im, b.re)};
}

/// Signed sums and products wrap, as the hardware's do, instead of being undefined.
template <class T>
struct Wrapping {
  using type = T;
};
#define WEFT_X(narrow, wide) \
  template <>                \
  struct Wrapping<narrow> {  \
    using type = wide;       \
  };
WEFT_X(int8_t, unsigned)
WEFT_X(int16_t, unsigned)
WEFT_X(uint8_t, unsigned)
WEFT_X(uint16_t, unsigned)
WEFT_X(int32_t, uint32_t)
WEFT_X(int64_t, uint64_t)
WEFT_X(Int128, UInt128)
#undef WEFT_X

/// a op b for one element, in the type that widen() gives; specialised per operation. `a` is MPI's `in`, the
/// term of the lower rank.
template <ReduceOp op>
struct Apply;

template <>
struct Apply<ReduceOp::sum> {
  template <class T>
  WEFT_HOST_DEVICE static T of(T a, T b) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
template <>
struct Apply<ReduceOp::prod> {
  template <class T>
  WEFT_HOST_DEVICE static T of(T a, T b) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};

// X(operation, expression of a and b)
#define WEFT_SIMPLE_REDUCTIONS(X)               \
  X(min, a < b ? a : b)                         \
  X(max, a > b ? a : b)                         \
  X(band, static_cast<T>(a & b))                \
  X(bor, static_cast<T>(a | b))                 \
  X(bxor, static_cast<T>(a ^ b))                \
  X(land, static_cast<T>((a != 0) & (b != 0)))  \
  X(lor, static_cast<T>((a != 0) | (b != 0)))   \
  X(lxor, static_cast<T>((a != 0) != (b != 0))) \
  X(replace, a)                                 \
  X(no_op, b)                                   \
  X(minloc, takes_lower(a, b) ? a : b)          \
  X(maxloc, takes_higher(a, b) ? a : b)

/// Pairs: the extreme value; of equal values the smaller index (MPI 5.0 section 6.9.4).
template <class P>
WEFT_HOST_DEVICE bool takes_lower(const P& a, const P& b) {
  return a.value < b.value || (a.value == b.value && a.index < b.index);
}
template <class P>
WEFT_HOST_DEVICE bool takes_higher(const P& a, const P& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

#define WEFT_X(name, expression)                                               \
  template <>                                                                  \
  struct Apply<ReduceOp::name> {                                               \
    template <class T>                                                         \
    WEFT_HOST_DEVICE static T of([[maybe_unused]] T a, [[maybe_unused]] T b) { \
      return expression;                                                       \
    }                                                                          \
  };
WEFT_SIMPLE_REDUCTIONS(WEFT_X)
#undef WEFT_X

}  // namespace weft::element
