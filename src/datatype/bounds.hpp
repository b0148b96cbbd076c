// SPDX-License-Identifier: BSD-3-Clause
// Bounds: size, extent and signature of a type map, kept up to date while a constructor places copies of its
// parts. Follows MPI 5.0 section 5.1.6: once a part carries explicit bounds, only explicit bounds count.
#pragma once
#include "datatype/basic.hpp"
#include "datatype/checked.hpp"

namespace weft::datatype {

struct Bounds {
  Count size = 0;        ///< bytes of data; 0 exactly when the type map is empty
  Count lb = 0, ub = 0;  ///< valid after finish()
  Count true_lb = 0, true_ub = 0;
  Count elements = 0;   ///< basic elements; a pair counts two
  Count alignment = 1;  ///< the largest of the parts' alignments
  bool marked = false;  ///< bounds are explicit: resized, subarray, darray, or made of such
  bool placed = false;  ///< lb and ub hold the bounds of a marked part
  bool uniform = true;  ///< every element is of type `basic` (when size > 0)
  Basic basic = Basic::byte;

  /// Adds `copies` copies of part, at displacements between low and high.
  void place(const Bounds& part, Count copies, Count low, Count high, Checked& math);
  /// Sets explicit bounds, forgetting earlier ones.
  void mark(Count new_lb, Count new_ub);
  /// Computes lb and ub of an unmarked type: the true bounds, the extent rounded up to the alignment.
  void finish(Checked& math);
};

}  // namespace weft::datatype
