// SPDX-License-Identifier: BSD-3-Clause
// Reductions as the kernels compute them: on 16-byte vectors of consecutive elements. Generated from the
// table of base/element/reduce.hpp; the emulated driver and the tests call the same functions. A kernel gets
// its Reduction at run time, the same for all threads: one branch per vector. C++17.
#pragma once
#include <type_traits>

#include "base/element/reduce.hpp"

#ifdef __CUDACC__
#define WEFT_INLINE __host__ __device__ __forceinline__
#define WEFT_UNROLL _Pragma("unroll")
#define WEFT_DO_NOT_UNROLL _Pragma("unroll 1")
#else
#define WEFT_INLINE inline
#define WEFT_UNROLL
#define WEFT_DO_NOT_UNROLL
#endif

namespace weft::device::kernel {

using element::ReduceOp;

/// The machine types that kernels compute with. Basic types with the same arithmetic share one: see
/// reduction_of(). All sizes divide 16.
#define WEFT_KERNEL_ELEMENTS(X)                       \
  X(int8, int8_t)                                     \
  X(int16, int16_t)                                   \
  X(int32, int32_t)                                   \
  X(int64, int64_t)                                   \
  X(int128, element::Int128)                          \
  X(uint8, uint8_t)                                   \
  X(uint16, uint16_t)                                 \
  X(uint32, uint32_t)                                 \
  X(uint64, uint64_t)                                 \
  X(float16, element::Half)                           \
  X(bfloat16, element::BFloat16)                      \
  X(float32, float)                                   \
  X(float64, double)                                  \
  X(complex_float16, element::Complex<element::Half>) \
  X(complex_float32, element::Complex<float>)         \
  X(complex_float64, element::Complex<double>)        \
  X(float_int, WEFT_PAIR(float, int))                 \
  X(double_int, WEFT_PAIR(double, int))               \
  X(long_int, WEFT_PAIR(long, int))                   \
  X(two_int, WEFT_PAIR(int, int))                     \
  X(short_int, WEFT_PAIR(short, int))                 \
  X(two_real, WEFT_PAIR(float, float))                \
  X(two_double_precision, WEFT_PAIR(double, double))  \
  X(float8_e4m3, element::Float8E4M3)                 \
  X(float8_e5m2, element::Float8E5M2)

enum class Element : uint8_t {
#define WEFT_X(name, type) name,
  WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
      none
};

/// An operation on a type, as a kernel parameter.
struct Reduction {
  ReduceOp op = ReduceOp::no_op;
  Element element = Element::none;
  /// False: undefined, or not supported by kernels (`long double`, quadruple precision).
  [[nodiscard]] WEFT_HOST_DEVICE constexpr bool defined() const { return element != Element::none; }
  /// Returns whether collectives have specialised code.
  [[nodiscard]] WEFT_HOST_DEVICE constexpr bool float_sum() const {
    return op == ReduceOp::sum && element == Element::float32;
  }
};

struct alignas(16) Vec16 {
  uint32_t words[4];
};

namespace detail {

enum class Family : uint8_t { signed_integer, unsigned_integer, floating, complex, pair };
template <class T>
struct FamilyOf {
  static constexpr Family value = T(-1) < T(0) ? Family::signed_integer : Family::unsigned_integer;
};
template <>
struct FamilyOf<element::Half> {
  static constexpr Family value = Family::floating;
};
template <>
struct FamilyOf<element::BFloat16> : FamilyOf<element::Half> {};
template <>
struct FamilyOf<element::Float8E4M3> : FamilyOf<element::Half> {};
template <>
struct FamilyOf<element::Float8E5M2> : FamilyOf<element::Half> {};
template <>
struct FamilyOf<float> : FamilyOf<element::Half> {};
template <>
struct FamilyOf<double> : FamilyOf<element::Half> {};
template <class T>
struct FamilyOf<element::Complex<T>> {
  static constexpr Family value = Family::complex;
};
template <class V, class I>
struct FamilyOf<element::Pair<V, I>> {
  static constexpr Family value = Family::pair;
};

/// Operations independent of the element type: computed on words.
WEFT_HOST_DEVICE constexpr bool bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor || op == ReduceOp::replace ||
         op == ReduceOp::no_op;
}

/// The combinations compiled into kernels, after the merging by reduction_of().
template <ReduceOp op, class T>
WEFT_HOST_DEVICE constexpr bool compiled() {
  constexpr Family family = FamilyOf<T>::value;
  constexpr bool byte = std::is_same<T, uint8_t>::value;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
      return family == Family::signed_integer || family == Family::floating || family == Family::complex;
    case ReduceOp::min:
    case ReduceOp::max:
      return family != Family::complex && family != Family::pair;
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor:
      return family == Family::signed_integer;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return byte;
    case ReduceOp::minloc:
    case ReduceOp::maxloc:
      return family == Family::pair;
    case ReduceOp::replace:
    case ReduceOp::no_op:
      return byte || family == Family::pair;
  }
  return false;
}

/// The type in which an operation is computed.
template <ReduceOp op, class T, bool = bitwise(op)>
struct LaneOf {
  using type = T;
};
template <ReduceOp op, class T>
struct LaneOf<op, T, true> {
  using type = uint64_t;
};

template <class T>
constexpr Element element_of() {
#define WEFT_X(name, type) \
  if (std::is_same<T, type>::value) return Element::name;
  WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
  return Element::none;
}

constexpr Element signed_of(size_t size) {
  return size == 1   ? Element::int8
         : size == 2 ? Element::int16
         : size == 4 ? Element::int32
         : size == 8 ? Element::int64
                     : Element::int128;
}

constexpr Reduction make_reduction(ReduceOp op, element::Group group, Element exact, size_t size) {
  using element::Group;
  if (!element::allowed(op, group)) return {};
  const bool integer = group != Group::floating && group != Group::complex && group != Group::pair;
  if (bitwise(op)) return {op, group == Group::pair ? exact : Element::uint8};
  if (integer && op != ReduceOp::min && op != ReduceOp::max) return {op, signed_of(size)};
  return {op, exact};
}

}  // namespace detail

/// The kernel's equivalent of an MPI operation on a basic type.
constexpr Reduction reduction_of(ReduceOp op, element::Basic basic) {
  switch (basic) {
#define WEFT_X(name, type, group) \
  case element::Basic::name:      \
    return detail::make_reduction(op, element::Group::group, detail::element_of<type>(), sizeof(type));
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  }
  return {};
}

/// A vector during accumulation: binary16 and bfloat16 as float, all other types unchanged, in the first
/// half. 8-bit formats, whose floats would need twice these registers, are rounded after each term.
struct Accumulator {
  uint32_t words[8];
};

namespace detail {

/// Lanes are extracted and inserted by value, so that everything stays in registers.
template <class Lane>
WEFT_INLINE Lane lane_of(const uint32_t* words, int i) {
  constexpr int kSize = sizeof(Lane);
  Lane lane;
  if constexpr (kSize < 4) {
    using Bits = typename std::conditional<kSize == 1, uint8_t, uint16_t>::type;
    const Bits bits = static_cast<Bits>(words[i * kSize / 4] >> (i * kSize % 4 * 8));
    memcpy(&lane, &bits, kSize);
  } else {
    uint32_t own[kSize / 4];
    for (int k = 0; k < kSize / 4; ++k) own[k] = words[i * kSize / 4 + k];
    memcpy(&lane, own, kSize);
  }
  return lane;
}

/// Lanes smaller than a word need zeroed words.
template <class Lane>
WEFT_INLINE void put_lane(uint32_t* words, int i, const Lane& lane) {
  constexpr int kSize = sizeof(Lane);
  if constexpr (kSize < 4) {
    typename std::conditional<kSize == 1, uint8_t, uint16_t>::type bits;
    memcpy(&bits, &lane, kSize);
    words[i * kSize / 4] |= static_cast<uint32_t>(bits) << (i * kSize % 4 * 8);
  } else {
    uint32_t own[kSize / 4];
    memcpy(own, &lane, kSize);
    for (int k = 0; k < kSize / 4; ++k) words[i * kSize / 4 + k] = own[k];
  }
}

template <class Lane>
WEFT_INLINE Accumulator widen_lanes(const Vec16& vec) {
  Accumulator wide{};
  WEFT_UNROLL
  for (int i = 0; i < 8; ++i) put_lane(wide.words, i, element::widen(lane_of<Lane>(vec.words, i)));
  return wide;
}

template <class Lane>
WEFT_INLINE Vec16 narrow_lanes(const Accumulator& wide) {
  Vec16 vec{};
  WEFT_UNROLL
  for (int i = 0; i < 8; ++i) put_lane(vec.words, i, element::narrow<Lane>(lane_of<float>(wide.words, i)));
  return vec;
}

}  // namespace detail

/// Accumulator with the first term.
WEFT_INLINE Accumulator start(Element element, const Vec16& first) {
  if (element == Element::float16 || element == Element::complex_float16)
    return detail::widen_lanes<element::Half>(first);
  if (element == Element::bfloat16) return detail::widen_lanes<element::BFloat16>(first);
  return {{first.words[0], first.words[1], first.words[2], first.words[3], 0, 0, 0, 0}};
}

/// The result, rounded.
WEFT_INLINE Vec16 finish(Element element, const Accumulator& sum) {
  if (element == Element::float16 || element == Element::complex_float16)
    return detail::narrow_lanes<element::Half>(sum);
  if (element == Element::bfloat16) return detail::narrow_lanes<element::BFloat16>(sum);
  return {{sum.words[0], sum.words[1], sum.words[2], sum.words[3]}};
}

namespace detail {

/// Whether the code of an operation on all lanes is too large to have it for each: kernels would no longer
/// fit into instruction caches.
template <class T>
WEFT_HOST_DEVICE constexpr bool rotates() {
  return std::is_same<T, element::Float8E4M3>::value || std::is_same<T, element::Float8E5M2>::value;
}

/// The type of a lane in an Accumulator.
template <class Lane, bool = sizeof(Lane) == 1>
struct AccumulatedLane {
  using type = element::Wide<Lane>;
};
template <class Lane>
struct AccumulatedLane<Lane, true> {
  using type = Lane;
};

}  // namespace detail

/// One operation on one type.
template <ReduceOp op, class T>
struct Term {
  using Lane = typename detail::LaneOf<op, T>::type;
  using Sum = typename detail::AccumulatedLane<Lane>::type;
  static constexpr int kLanes = 16 / sizeof(Lane);

  /// acc = acc op term.
  WEFT_INLINE static void add(Accumulator& acc, const Vec16& term) {
    if constexpr (detail::rotates<T>()) return add_words(acc, term);
    Accumulator result{};
    WEFT_UNROLL
    for (int i = 0; i < kLanes; ++i)
      detail::put_lane<Sum>(
          result.words, i,
          of(detail::lane_of<Sum>(acc.words, i), element::widen(detail::lane_of<Lane>(term.words, i))));
    acc = result;
  }
  /// a op b of one element of at most 8 bytes.
  WEFT_INLINE static uint64_t of_element(uint64_t a, uint64_t b) {
    uint32_t words[2] = {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32)},
             others[2] = {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)}, result[2] = {};
    const auto left = element::widen(detail::lane_of<Lane>(words, 0)),
               right = element::widen(detail::lane_of<Lane>(others, 0));
    detail::put_lane<Lane>(result, 0, element::narrow<Lane>(element::Apply<op>::of(left, right)));
    return uint64_t{result[1]} << 32 | result[0];
  }

 private:
  WEFT_INLINE static Sum of(const Sum& sum, const element::Wide<Lane>& term) {
    return element::narrow<Sum>(element::Apply<op>::of(element::widen(sum), term));
  }
  /// Word by word, with code for one: the words rotate through the registers.
  WEFT_INLINE static void add_words(Accumulator& acc, const Vec16& term) {
    constexpr int kLanesOfWord = 4 / sizeof(Lane);
    Vec16 terms = term;
    WEFT_DO_NOT_UNROLL
    for (int word = 0; word < 4; ++word) {
      uint32_t result = 0;
      WEFT_UNROLL
      for (int i = 0; i < kLanesOfWord; ++i)
        detail::put_lane<Sum>(
            &result, i,
            of(detail::lane_of<Sum>(acc.words, i), element::widen(detail::lane_of<Lane>(terms.words, i))));
      acc = {{acc.words[1], acc.words[2], acc.words[3], result, 0, 0, 0, 0}};
      terms = {{terms.words[1], terms.words[2], terms.words[3], terms.words[0]}};
    }
  }
};

namespace detail {

template <ReduceOp op, class Do>
WEFT_INLINE void visit_element(Element element, Do&& act) {
  switch (element) {
#define WEFT_X(name, type)                                     \
  case Element::name:                                          \
    if constexpr (compiled<op, type>()) act(Term<op, type>{}); \
    break;
    WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
    case Element::none:
      break;
  }
}

}  // namespace detail

/// Calls act(Term<op, type>{}) for the operation and type of `reduction`. Every use is compiled 94 times:
/// keep `act` small, loads and stores outside, and one use per kernel.
template <class Do>
WEFT_INLINE void visit(Reduction reduction, Do&& act) {
  switch (reduction.op) {
#define WEFT_X(name)                                               \
  case ReduceOp::name:                                             \
    detail::visit_element<ReduceOp::name>(reduction.element, act); \
    break;
    WEFT_X(sum)
    WEFT_X(min)
    WEFT_X(max)
    WEFT_X(prod)
    WEFT_X(band)
    WEFT_X(bor)
    WEFT_X(bxor)
    WEFT_X(land)
    WEFT_X(lor)
    WEFT_X(lxor)
    WEFT_X(minloc)
    WEFT_X(maxloc)
    WEFT_X(replace)
    WEFT_X(no_op)
#undef WEFT_X
  }
}

/// accumulators[i] = accumulators[i] op terms[i], with one branch for all.
template <int n>
WEFT_INLINE void add(Reduction reduction, Accumulator (&accumulators)[n], const Vec16 (&terms)[n]) {
  visit(reduction, [&](auto term) {
    WEFT_UNROLL
    for (int i = 0; i < n; ++i) decltype(term)::add(accumulators[i], terms[i]);
  });
}

/// fetch(0) op fetch(1) op ... op fetch(terms - 1), in this order: rank order gives MPI's result. Terms are
/// fetched one by one; where latency matters, batch vectors with add().
template <class Fetch>
WEFT_INLINE Vec16 fold(Reduction reduction, int terms, Fetch&& fetch) {
  Accumulator sum[1] = {start(reduction.element, fetch(0))};
  WEFT_DO_NOT_UNROLL
  for (int i = 1; i < terms; ++i) {
    const Vec16 term[1] = {fetch(i)};
    add(reduction, sum, term);
  }
  return finish(reduction.element, sum[0]);
}

/// fold() of at most kMost terms that are in registers, so that all loads are in flight at once.
template <int kMost>
WEFT_INLINE Vec16 fold_loaded(Reduction reduction, int terms, const Vec16 (&loaded)[kMost]) {
  Accumulator sum = start(reduction.element, loaded[0]);
  visit(reduction, [&](auto term) {
    WEFT_UNROLL
    for (int i = 1; i < kMost; ++i)
      if (i < terms) decltype(term)::add(sum, loaded[i]);
  });
  return finish(reduction.element, sum);
}

WEFT_HOST_DEVICE constexpr uint32_t element_size(Element element) {
  switch (element) {
#define WEFT_X(name, type) \
  case Element::name:      \
    return sizeof(type);
    WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
    case Element::none:
      break;
  }
  return 0;
}

/// The bytes of a vector that are data: bit i for byte i. The padding of a pair must not be written.
WEFT_HOST_DEVICE constexpr uint32_t data_bytes(Element element) {
  return element == Element::short_int                                    ? 0xf3f3
         : element == Element::double_int || element == Element::long_int ? 0x0fff
                                                                          : 0xffff;
}

}  // namespace weft::device::kernel
