// SPDX-License-Identifier: BSD-3-Clause
// Piece: bounds and layout of a type under construction, and what the constructors share. Private to this
// folder.
#pragma once
#include <utility>

#include "datatype/datatype.hpp"

namespace weft::datatype {

struct Piece {
  Bounds bounds;
  NodePtr layout;
};

[[nodiscard]] Error too_large();
[[nodiscard]] Error negative(const char* what, Count value);
[[nodiscard]] Piece piece_of(const Datatype& type);
/// Adds `copies` of part, the first at displacement, `stride` bytes apart.
void place_block(Bounds& total, const Bounds& part, Count copies, Count displacement, Count stride,
                 Checked& math);
/// `copies` of part, the first at displacement, `stride` bytes apart.
[[nodiscard]] Piece repeat(const Piece& part, Count copies, Count stride, Count displacement, Checked& math);
/// Puts the finished piece into the slab.
[[nodiscard]] Made make(Piece piece, Contents contents);

/// Collects contents: narrow calls have their counts among the integers, wide calls apart (MPI 5.0
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
