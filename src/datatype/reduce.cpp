// SPDX-License-Identifier: BSD-3-Clause
// Host reduction loops: one function per allowed (operation, type) of base/element/reduce.hpp. Compiled with
// -O3 so that the loops vectorise.
#include "datatype/reduce.hpp"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace weft::datatype {
namespace {

using element::Apply;

template <class T>
struct IsPair : std::false_type {};
template <class V, class I>
struct IsPair<Pair<V, I>> : std::true_type {};

/// An element without alignment or aliasing assumptions.
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// Iterations are independent: `result` overlaps an input only at the same element.
#ifdef __clang__
#define WEFT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <ReduceOp op, class T>
void loop(const void* left, const void* right, void* result, size_t count) {
  const auto* a = static_cast<const Unaligned<T>*>(left);
  const auto* b = static_cast<const Unaligned<T>*>(right);
  auto* to = static_cast<Unaligned<T>*>(result);
  WEFT_INDEPENDENT
  for (size_t i = 0; i < count; ++i)
    to[i].value = element::narrow<T>(Apply<op>::of(element::widen(a[i].value), element::widen(b[i].value)));
}

template <class T>
void replace(const void* left, const void*, void* result, size_t count) {
  std::memcpy(result, left, count * sizeof(T));
}

template <class T>
void no_operation(const void*, const void* right, void* result, size_t count) {
  std::memmove(result, right, count * sizeof(T));
}

template <class Member>
Member load(const char* from) {
  Member value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Copies value and index separately: the padding must not change.
template <class P>
void put_pair(char* to, const char* from) {
  std::memcpy(to, from, sizeof(P::value));
  std::memcpy(to + offsetof(P, index), from + offsetof(P, index), sizeof(P::index));
}

template <class P>
P load_pair(const char* from) {
  return {load<decltype(P::value)>(from), load<decltype(P::index)>(from + offsetof(P, index))};
}

template <ReduceOp op, class P>
void pair_loop(const void* left, const void* right, void* result, size_t count) {
  const char *a = static_cast<const char*>(left), *b = static_cast<const char*>(right);
  char* to = static_cast<char*>(result);
  for (size_t i = 0; i < count; ++i, a += sizeof(P), b += sizeof(P), to += sizeof(P)) {
    const P first = load_pair<P>(a), second = load_pair<P>(b);
    const bool take_left = op == ReduceOp::replace  ? true
                           : op == ReduceOp::minloc ? element::minloc_selects(first, second)
                                                    : element::maxloc_selects(first, second);
    put_pair<P>(to, take_left ? a : b);
  }
}

template <ReduceOp op, class T, Group group>
constexpr ReduceFn function_for() {
  if constexpr (!allowed(op, group))
    return nullptr;
  else if constexpr (op == ReduceOp::no_op)
    return no_operation<T>;
  else if constexpr (IsPair<T>::value)
    return pair_loop<op, T>;
  else if constexpr (op == ReduceOp::replace)
    return replace<T>;
  else
    return loop<op, T>;
}

template <class T, Group group, size_t... op>
constexpr std::array<ReduceFn, kReduceOpCount> row(std::index_sequence<op...>) {
  return {function_for<static_cast<ReduceOp>(op), T, group>()...};
}

constexpr std::array<std::array<ReduceFn, kReduceOpCount>, kBasicCount> kTable = {
#define WEFT_X(name, type, group) row<type, Group::group>(std::make_index_sequence<kReduceOpCount>()),
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
};

}  // namespace

ReduceFn reduce_function(ReduceOp op, Basic basic) {
  return kTable[static_cast<size_t>(reduction_type(basic))][static_cast<size_t>(op)];
}

const char* name(ReduceOp op) {
  static constexpr const char* kNames[kReduceOpCount] = {"sum",    "min",    "max",     "prod", "band",
                                                         "bor",    "bxor",   "land",    "lor",  "lxor",
                                                         "minloc", "maxloc", "replace", "no_op"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace weft::datatype
