// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, reduce.cu and the emulated driver: the kernel that multiplies or divides the
// elements of a vector. C++17.
#pragma once
#include "base/element/scale.hpp"
#include "device/kernel/reduce.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_scale(Scale)`: dst[i] = source[i] * factor, or source[i] / divisor.
struct Scale {
  Reduce vector;            ///< dst, one source, bytes, head, alignment, and the element of its reduction
  uint64_t factor_address;  ///< of an element in memory of the GPU; 0: `factor`
  Vec16 factor;             ///< an element in the first bytes
  uint32_t divisor;         ///< 0: multiply
};

namespace detail {

template <class T>
struct IsNumber {
  static constexpr bool value = FamilyOf<T>::value != Family::pair && sizeof(T) <= 8;
};
template <>
struct IsNumber<element::Int128> {
  static constexpr bool value = false;
};
template <>
struct IsNumber<element::Complex<double>> {
  static constexpr bool value = true;
};

template <class T>
WEFT_INLINE Vec16 scale_lanes(const Vec16& x, const Vec16& factor, uint32_t divisor) {
  Vec16 result{};
  const T by = lane_of<T>(factor.words, 0);
  WEFT_UNROLL
  for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
    const T lane = lane_of<T>(x.words, i);
    put_lane(result.words, i, divisor != 0 ? element::divide(lane, divisor) : element::multiply(lane, by));
  }
  return result;
}

}  // namespace detail

/// Whether the kernel scales elements of this type: numbers of up to 64 bits, and complex numbers.
WEFT_HOST_DEVICE constexpr bool can_scale(Element element) {
  switch (element) {
#define WEFT_X(name, type) \
  case Element::name:      \
    return detail::IsNumber<type>::value;
    WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
    case Element::none:
      break;
  }
  return false;
}

/// Scales the elements of a vector. Requires can_scale().
WEFT_INLINE Vec16 scale_vec16(Element element, const Vec16& x, const Vec16& factor, uint32_t divisor) {
  switch (element) {
#define WEFT_X(name, type)                                                                             \
  case Element::name:                                                                                  \
    if constexpr (detail::IsNumber<type>::value) return detail::scale_lanes<type>(x, factor, divisor); \
    break;
    WEFT_KERNEL_ELEMENTS(WEFT_X)
#undef WEFT_X
    case Element::none:
      break;
  }
  return x;
}

/// The element by which the vector is multiplied.
WEFT_INLINE Vec16 factor_of(const Scale& p) {
  return p.factor_address == 0 ? p.factor
                               : load_part(p.factor_address, element_size(p.vector.reduction.element));
}

/// Scales one work item.
WEFT_INLINE void scale_item(const Scale& p, const Vec16& factor, uint64_t item) {
  const Reduce& v = p.vector;
  const ReduceItem range(v, item);
  const uint64_t from = v.sources[0] + range.offset, to = v.dst + range.offset;
  const Vec16 x = range.bytes == 16 ? load_vec16(from, v.alignment) : load_part(from, range.bytes);
  const Vec16 result = scale_vec16(v.reduction.element, x, factor, p.divisor);
  if (range.bytes == 16)
    store_vec16(to, result, v.alignment, 0xffff);
  else
    store_part(to, result, range.bytes, 0xffff);
}

}  // namespace weft::device::kernel
