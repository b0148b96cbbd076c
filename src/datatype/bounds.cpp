// SPDX-License-Identifier: BSD-3-Clause
// Extent rules of MPI 5.0 section 5.1.6 (ADR 0024), and the traits of basic types.
#include "datatype/bounds.hpp"

#include <algorithm>
#include <array>

namespace weft::datatype {
namespace {

template <class T>
constexpr BasicTraits make_traits(const char* name, Group group) {
  return {name, sizeof(T), sizeof(T), alignof(T), group, sizeof(T), 0};
}

template <class P>
constexpr BasicTraits make_pair_traits(const char* name) {
  return {name,
          sizeof(P::value) + sizeof(P::index),
          sizeof(P),
          alignof(P),
          Group::pair,
          sizeof(P::value),
          static_cast<int64_t>(offsetof(P, index))};
}

template <class T>
struct TraitsOf {
  static constexpr BasicTraits get(const char* name, Group group) { return make_traits<T>(name, group); }
};
template <class V, class I>
struct TraitsOf<Pair<V, I>> {
  static constexpr BasicTraits get(const char* name, Group) { return make_pair_traits<Pair<V, I>>(name); }
};

constexpr std::array<BasicTraits, kBasicCount> kTraits = {
#define WEFT_X(name, type, group) TraitsOf<type>::get(#name, Group::group),
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
};

}  // namespace

const BasicTraits& traits_of(Basic basic) { return kTraits[static_cast<size_t>(basic)]; }

void Bounds::place(const Bounds& part, Count copies, Count low, Count high, Checked& math) {
  if (copies == 0 || (part.size == 0 && !part.marked)) return;
  if (part.marked >= marked) {
    const bool first = !placed || part.marked > marked;
    const Count lower = math.add(part.lb, low), upper = math.add(part.ub, high);
    lb = first ? lower : std::min(lb, lower);
    ub = first ? upper : std::max(ub, upper);
    marked = part.marked;
    placed = true;
  }
  if (part.size == 0) return;
  const Count lower = math.add(part.true_lb, low), upper = math.add(part.true_ub, high);
  if (size == 0) {
    true_lb = lower;
    true_ub = upper;
    uniform = part.uniform;
    basic = part.basic;
  } else {
    true_lb = std::min(true_lb, lower);
    true_ub = std::max(true_ub, upper);
    uniform = uniform && part.uniform && basic == part.basic;
  }
  alignment = std::max(alignment, part.alignment);
  size = math.add(size, math.mul(part.size, copies));
  elements = math.add(elements, math.mul(part.elements, copies));
}

void Bounds::mark(Count new_lb, Count new_ub) {
  marked = placed = true;
  lb = new_lb;
  ub = new_ub;
}

void Bounds::finish(Checked& math) {
  static_cast<void>(math.sub(true_ub, true_lb));
  const Count remainder = math.sub(ub, lb) % alignment;
  if (!marked && remainder != 0) ub = math.add(ub, alignment - remainder);
}

}  // namespace weft::datatype
