// SPDX-License-Identifier: BSD-3-Clause
// Type signature: the basic types in type-map order, derived from the recorded constructor arguments. Private
// to this folder.
#pragma once
#include "datatype/datatype.hpp"

namespace weft::datatype {

/// Calls f(part, copies) for the components of one element of a derived type, until f returns false.
template <class F>
void for_each_part(const Datatype& type, F&& f) {
  const Contents& contents = type.contents();
  if (contents.types.empty()) return;
  if (contents.combiner != Combiner::structure) {
    const Datatype& part = *contents.types[0];
    f(part, part.size() == 0 ? 0 : type.size() / part.size());
    return;
  }
  for (size_t i = 0; i < contents.types.size(); ++i) {
    const Count copies = contents.width == Width::wide ? contents.counts[i + 1] : contents.integers[i + 1];
    if (!f(*contents.types[i], copies)) return;
  }
}

/// Calls f(predefined type, copies) for the basic types of `count` elements, in order.
template <class F>
void for_each_basic(const Datatype& type, Count count, F&& f) {
  if (type.size() == 0 || count == 0) return;
  if (type.predefined()) {
    f(type, count);
    return;
  }
  const bool one_part = type.contents().types.size() == 1;
  for (Count i = 0; i < (one_part ? 1 : count); ++i)
    for_each_part(type, [&](const Datatype& part, Count copies) {
      for_each_basic(part, one_part ? copies * count : copies, f);
      return true;
    });
}

}  // namespace weft::datatype
