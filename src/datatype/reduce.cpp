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

template <ReduceOp op, class T>
void loop(const void* in, void* inout, size_t count) {
  const auto* __restrict a = static_cast<const Unaligned<T>*>(in);
  auto* __restrict b = static_cast<Unaligned<T>*>(inout);
  for (size_t i = 0; i < count; ++i)
    b[i].value = element::narrow<T>(Apply<op>::of(element::widen(a[i].value), element::widen(b[i].value)));
}

template <class T>
void replace(const void* in, void* inout, size_t count) {
  std::memcpy(inout, in, count * sizeof(T));
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
void pair_loop(const void* in, void* inout, size_t count) {
  const char* a = static_cast<const char*>(in);
  char* b = static_cast<char*>(inout);
  for (size_t i = 0; i < count; ++i, a += sizeof(P), b += sizeof(P)) {
    if constexpr (op == ReduceOp::replace) {
      put_pair<P>(b, a);
    } else {
      const P first = load_pair<P>(a), second = load_pair<P>(b);
      if (op == ReduceOp::minloc ? element::minloc_selects(first, second)
                                 : element::maxloc_selects(first, second))
        put_pair<P>(b, a);
    }
  }
}

void no_operation(const void*, void*, size_t) {}

template <ReduceOp op, class T, Group group>
constexpr ReduceFn function_for() {
  if constexpr (!allowed(op, group))
    return nullptr;
  else if constexpr (op == ReduceOp::no_op)
    return no_operation;
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
  return kTable[static_cast<size_t>(basic)][static_cast<size_t>(op)];
}

const char* name(ReduceOp op) {
  static constexpr const char* kNames[kReduceOpCount] = {"sum",    "min",    "max",     "prod", "band",
                                                         "bor",    "bxor",   "land",    "lor",  "lxor",
                                                         "minloc", "maxloc", "replace", "no_op"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace weft::datatype
