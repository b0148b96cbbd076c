// SPDX-License-Identifier: BSD-3-Clause
// Reduction operations: the type groups on which each is defined, and its result for one element. Host loops,
// GPU kernels and tests are generated from this table. No host calls; C++17.
#pragma once
#include "base/element/convert.hpp"

#ifdef __CUDACC__
#define WEFT_NOINLINE __noinline__
#else
#define WEFT_NOINLINE __attribute__((noinline))
#endif

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
constexpr int kReduceOpCount = 14;

/// Table of MPI 5.0 section 6.9.2, with one extension that programs rely on: logical operations on the
/// multi-language types, which are C integers.
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

/// Product rounded before any addition: a fused multiply-add would differ between CPU and GPU.
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
WEFT_HOST_DEVICE inline bool is_nan(T x) {
  return x != x;
}
template <class T>
WEFT_HOST_DEVICE inline bool is_infinite(T x) {
  return x == x && is_nan(x - x);
}
template <class T>
WEFT_HOST_DEVICE inline bool is_infinite(Complex<T> x) {
  return is_infinite(x.re) || is_infinite(x.im);
}
/// Whether nothing of a product is known, although an operand or a part of the product may be infinite.
template <class T>
WEFT_HOST_DEVICE inline bool is_lost(Complex<T> product) {
  return is_nan(product.re) & is_nan(product.im);
}
/// A part of direction().
template <class T>
WEFT_HOST_DEVICE inline T direction(T part, bool infinite) {
  if (!infinite) return is_nan(part) ? T(0) : part;
  if (!is_infinite(part)) return T(0);
  return part < T(0) ? T(-1) : T(1);
}
/// An operand of which only its infinite parts count, if it has any; a part that is no number never counts.
template <class T>
WEFT_HOST_DEVICE inline Complex<T> direction(Complex<T> x) {
  const bool infinite = is_infinite(x);
  return {direction(x.re, infinite), direction(x.im, infinite)};
}
template <class T>
WEFT_HOST_DEVICE inline Complex<T> plain_product(Complex<T> a, Complex<T> b) {
  return {rounded_product(a.re, b.re) - rounded_product(a.im, b.im),
          rounded_product(a.re, b.im) + rounded_product(a.im, b.re)};
}
/// The product of a and b, which is lost: infinite if an operand or a product of parts is (C, Annex G.5.1).
/// Not inline: kernels would need more registers in every reduction.
template <class T>
WEFT_HOST_DEVICE WEFT_NOINLINE Complex<T> recovered_product(Complex<T> a, Complex<T> b) {
  const bool overflows = is_infinite(rounded_product(a.re, b.re)) ||
                         is_infinite(rounded_product(a.im, b.im)) ||
                         is_infinite(rounded_product(a.re, b.im)) || is_infinite(rounded_product(a.im, b.re));
  if (!is_infinite(a) && !is_infinite(b) && !overflows) return plain_product(a, b);
  const Complex<T> towards = plain_product(direction(a), direction(b));
  const T infinity = static_cast<T>(detail::bit_cast<float>(0x7f800000u));
  return {infinity * towards.re, infinity * towards.im};
}
template <class T>
WEFT_HOST_DEVICE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  const Complex<T> product = plain_product(a, b);
  return is_lost(product) ? recovered_product(a, b) : product;
}

/// Unsigned type in which signed sums and products wrap instead of being undefined.
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

/// a op b for one element of a Wide type; specialised per operation. `a` is MPI's `invec`, the term of the
/// lower rank.
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
  X(minloc, minloc_selects(a, b) ? a : b)       \
  X(maxloc, maxloc_selects(a, b) ? a : b)

/// Returns true if MINLOC/MAXLOC selects `a`: the extreme value, on ties the smaller index (MPI 5.0
/// section 6.9.4).
template <class P>
WEFT_HOST_DEVICE bool minloc_selects(const P& a, const P& b) {
  return a.value < b.value || (a.value == b.value && a.index < b.index);
}
template <class P>
WEFT_HOST_DEVICE bool maxloc_selects(const P& a, const P& b) {
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
