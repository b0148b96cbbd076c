// SPDX-License-Identifier: BSD-3-Clause
// Slow oracle for datatypes: a type map written out element by element from the recorded constructor
// arguments, by the definitions of MPI 5.0 chapter 5. Uses no results of the library.
#pragma once
#include <cstddef>
#include <vector>

#include "datatype/datatype.hpp"

namespace weft::reference {

using datatype::Count;

/// One basic element.
struct Element {
  Count displacement;
  Count size;
  Count alignment;
};

struct TypeMap {
  std::vector<Element> elements;
  std::vector<Count> lb_markers, ub_markers;
  std::vector<Count> component_ends;  // ub of each component, with its padding

  [[nodiscard]] Count size() const;
  [[nodiscard]] Count lb() const;
  [[nodiscard]] Count ub() const;
  [[nodiscard]] Count extent() const { return ub() - lb(); }
  [[nodiscard]] Count true_lb() const;
  [[nodiscard]] Count true_ub() const;
};

[[nodiscard]] TypeMap typemap(const datatype::Datatype& type);

/// Returns the displacement of every byte of the packed stream of `count` elements.
[[nodiscard]] std::vector<Count> byte_map(const TypeMap& map, Count count);
/// Returns the number of basic elements in the first `bytes` of a stream; datatype::kUndefined if an element
/// is cut.
[[nodiscard]] Count elements(const TypeMap& map, Count bytes);

}  // namespace weft::reference
