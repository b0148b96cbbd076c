// SPDX-License-Identifier: BSD-3-Clause
// Host loops of base/element/scale.hpp. Compiled like datatype/reduce.cpp: nothing is contracted.
#include "datatype/scale.hpp"

#include <cstring>

#include "base/assert.hpp"

namespace weft::datatype {
namespace {

template <class T, class Function>
void each_element(const void* from, void* to, size_t count, Function function) {
  const char* in = static_cast<const char*>(from);
  char* out = static_cast<char*>(to);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    value = function(value);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

/// Calls act.template operator()<T>() for the C++ type of a number.
template <class Act>
void visit_number(Basic basic, Act&& act) {
  switch (basic) {
#define WEFT_X(name, type, group)                                                  \
  case Basic::name:                                                                \
    if constexpr (is_number(Group::group)) return act.template operator()<type>(); \
    break;
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  }
  WEFT_ASSERT(false);
}

}  // namespace

void multiply(Basic basic, const void* from, const void* factor, void* to, size_t count) {
  visit_number(basic, [&]<class T>() {
    T by;
    std::memcpy(&by, factor, sizeof by);
    each_element<T>(from, to, count, [by](T x) { return element::multiply(x, by); });
  });
}

void divide(Basic basic, const void* from, uint32_t divisor, void* to, size_t count) {
  visit_number(basic, [&]<class T>() {
    each_element<T>(from, to, count, [divisor](T x) { return element::divide(x, divisor); });
  });
}

}  // namespace weft::datatype
