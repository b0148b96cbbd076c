// SPDX-License-Identifier: BSD-3-Clause
// PartialType: bounds and layout of a type under construction; helpers of the constructors. Private to this
// folder.
#pragma once
#include <utility>

#include "datatype/datatype.hpp"

namespace weft::datatype {

struct PartialType {
  Bounds bounds;
  NodePtr layout;
};

[[nodiscard]] Error too_large();
[[nodiscard]] Error negative(const char* what, Count value);
[[nodiscard]] PartialType partial_type_of(const Datatype& type);
/// Adds `copies` of `part` to `total`, the first at `displacement`, `stride` bytes apart.
void place_block(Bounds& total, const Bounds& part, Count copies, Count displacement, Count stride,
                 Checked& math);
/// `copies` of `part`, the first at `displacement`, `stride` bytes apart.
[[nodiscard]] PartialType repeat(const PartialType& part, Count copies, Count stride, Count displacement,
                                 Checked& math);
/// Creates the Datatype in the slab.
[[nodiscard]] DatatypeResult make(PartialType partial, Contents contents);

/// Collects contents: counts of narrow calls go to `integers`, of wide calls to `counts` (MPI 5.0
/// section 5.1.13).
class Recorder {
 public:
  Recorder(Combiner combiner, Width width) {
    contents_.combiner = combiner;
    contents_.width = width;
  }
  Recorder& integer(int value) {
    contents_.integers.push_back(value);
    return *this;
  }
  Recorder& count(Count value);
  Recorder& counts(Counts values);
  Recorder& address(Count value);
  Recorder& addresses(Counts values);
  Recorder& type(Datatype& type) {
    contents_.types.push_back(&type);
    return *this;
  }
  [[nodiscard]] Contents take() { return std::move(contents_); }

 private:
  Contents contents_;
};

}  // namespace weft::datatype
