// SPDX-License-Identifier: BSD-3-Clause
// Bounds: size, extent and signature of a type map, updated while a constructor places copies of its
// components. MPI 5.0 section 5.1.6: once a component has explicit bounds, only explicit bounds count.
#pragma once
#include "datatype/basic.hpp"
#include "datatype/checked.hpp"

namespace weft::datatype {

struct Bounds {
  Count size = 0;        ///< data bytes; 0 if and only if the type map is empty
  Count lb = 0, ub = 0;  ///< valid after finish(); before, those of the components placed, if any
  Count true_lb = 0, true_ub = 0;
  Count elements = 0;   ///< basic elements; a pair counts two
  Count alignment = 1;  ///< largest alignment of the components
  bool marked = false;  ///< explicit bounds: resized, subarray, darray, or a component of those
  bool placed = false;  ///< a component was placed: a marked one if `marked`
  bool uniform = true;  ///< if size > 0: every element has type `basic`
  Basic basic = Basic::byte;

  /// Adds `copies` copies of `part` at displacements from `low` to `high`.
  void place(const Bounds& part, Count copies, Count low, Count high, Checked& math);
  /// Sets explicit bounds, replacing earlier ones.
  void mark(Count new_lb, Count new_ub);
  /// Computes lb and ub of an unmarked type: those of its components, extent rounded up to the alignment.
  void finish(Checked& math);
};

}  // namespace weft::datatype
