// SPDX-License-Identifier: BSD-3-Clause
// Which operation is defined on which group of types, and what it computes on one element: the one table that
// the host loops and the GPU kernels are made from. Everything here is constexpr and free of host calls.
#pragma once
#include "datatype/basic.hpp"
#include "datatype/reduce.hpp"

#ifndef WEFT_HOST_DEVICE
#define WEFT_HOST_DEVICE
#endif

namespace weft::datatype {

/// MPI 5.0 section 6.9.2, table of operations and groups. One extension, as programs rely on it: logical
/// operations on the multi-language types, which are integers in C.
constexpr bool allowed(ReduceOp op, Group group) {
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

template <class T>
WEFT_HOST_DEVICE constexpr Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
WEFT_HOST_DEVICE constexpr Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/// Signed sums and products wrap, as the hardware's do, instead of being undefined.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<int8_t> {
  using type = unsigned;
};
template <>
struct Wrapping<int16_t> {
  using type = unsigned;
};
template <>
struct Wrapping<uint8_t> {
  using type = unsigned;
};
template <>
struct Wrapping<uint16_t> {
  using type = unsigned;
};
template <>
struct Wrapping<int32_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
};
__extension__ typedef unsigned __int128 UInt128;
template <>
struct Wrapping<Int128> {
  using type = UInt128;
};

/// a op b for one element; specialised per operation.
template <ReduceOp op>
struct Apply;

template <>
struct Apply<ReduceOp::sum> {
  template <class T>
  WEFT_HOST_DEVICE static constexpr T of(T a, T b) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
template <>
struct Apply<ReduceOp::prod> {
  template <class T>
  WEFT_HOST_DEVICE static constexpr T of(T a, T b) {
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
  X(replace, a)
#define WEFT_X(name, expression)                                        \
  template <>                                                           \
  struct Apply<ReduceOp::name> {                                        \
    template <class T>                                                  \
    WEFT_HOST_DEVICE static constexpr T of(T a, [[maybe_unused]] T b) { \
      return expression;                                                \
    }                                                                   \
  };
WEFT_SIMPLE_REDUCTIONS(WEFT_X)
#undef WEFT_X

/// Pairs: the extreme value; of equal values the smaller index (MPI 5.0 section 6.9.4).
template <>
struct Apply<ReduceOp::minloc> {
  template <class P>
  WEFT_HOST_DEVICE static constexpr bool takes_first(const P& a, const P& b) {
    return a.value < b.value || (a.value == b.value && a.index < b.index);
  }
};
template <>
struct Apply<ReduceOp::maxloc> {
  template <class P>
  WEFT_HOST_DEVICE static constexpr bool takes_first(const P& a, const P& b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
  }
};

}  // namespace weft::datatype
