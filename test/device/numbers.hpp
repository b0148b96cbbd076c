// SPDX-License-Identifier: BSD-3-Clause
// Elements of every basic type with exact sums and products of several terms; padding bytes have distinct
// values.
#pragma once
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "base/element/convert.hpp"

namespace weft::test {

template <class T>
void set_number(T& value, int number) {
  value = static_cast<T>(number);
}
inline void set_number(element::Half& value, int number) {
  value = element::narrow<element::Half>(static_cast<float>(number));
}
inline void set_number(element::BFloat16& value, int number) {
  value = element::narrow<element::BFloat16>(static_cast<float>(number));
}
inline void set_number(element::Float8E4M3& value, int number) {
  value = element::narrow<element::Float8E4M3>(static_cast<float>(number));
}
inline void set_number(element::Float8E5M2& value, int number) {
  value = element::narrow<element::Float8E5M2>(static_cast<float>(number));
}
template <class T>
void set_number(element::Complex<T>& value, int number) {
  // Multiples of 2 + i: no product has a zero part, whose sign would depend on the order.
  set_number(value.re, number < 0 ? 2 * number : 2 * (number + 1));
  set_number(value.im, number < 0 ? number : number + 1);
}
template <class V, class I>
void set_number(element::Pair<V, I>& value, int number) {
  value.value = static_cast<V>(number % 2);
  value.index = static_cast<I>(number);
}

template <class T>
std::vector<char> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(count * sizeof(T), '\x5a');
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memset(static_cast<void*>(&value), 0x5a, sizeof value);
    set_number(value, static_cast<int>(random() % 5) - (std::is_same_v<T, uint8_t> ? 0 : 2));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

}  // namespace weft::test
