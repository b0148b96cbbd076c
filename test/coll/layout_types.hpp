// SPDX-License-Identifier: BSD-3-Clause
// Random datatypes, and the blocks of one side of a collective.
#pragma once
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "reference/draw.hpp"

namespace layouts {

using randomized::Draw;

struct Element {
  MPI_Datatype type;
  int size;
};
inline const Element& element(Draw& draw) {
  static const Element all[] = {
      {MPI_INT8_T, 1}, {MPI_INT16_T, 2}, {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_C_DOUBLE_COMPLEX, 16}};
  return all[draw.below(5)];
}

/// `count` elements of a type, which lie in bytes [0, span).
struct Layout {
  MPI_Datatype type = MPI_BYTE;
  int count = 0;
  size_t span = 0;
};

/// Types of one call, freed at its end.
class Types {
 public:
  /// `regular`: neither indexed nor struct types.
  explicit Types(bool regular) : kinds_(regular ? 4 : 7) {}
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;
  ~Types() {
    for (MPI_Datatype& type : made_) MPI_Type_free(&type);
  }
  /// A type of `n` basic elements, n > 0.
  MPI_Datatype make(Draw& draw, const Element& base, int n) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const int parts = divisor(draw, n), each = n / parts;
    switch (draw.below(kinds_)) {
      case 0:
        MPI_Type_contiguous(n, base.type, &type);
        break;
      case 1:
        MPI_Type_vector(parts, each, each + draw.below(4), base.type, &type);
        break;
      case 2: {  // a corner of a matrix
        const int sizes[] = {parts + draw.below(3), each + draw.below(5)}, subsizes[] = {parts, each};
        const int starts[] = {draw.below(sizes[0] - parts + 1), draw.below(sizes[1] - each + 1)};
        MPI_Type_create_subarray(2, sizes, subsizes, starts, draw.of({MPI_ORDER_C, MPI_ORDER_FORTRAN}),
                                 base.type, &type);
        break;
      }
      case 3: {  // a corner of a cube
        const int planes = divisor(draw, each), row = each / planes;
        const int sizes[] = {parts + draw.below(2), planes + draw.below(3), row + draw.below(3)},
                  subsizes[] = {parts, planes, row};
        const int starts[] = {0, draw.below(sizes[1] - planes + 1), draw.below(sizes[2] - row + 1)};
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, base.type, &type);
        break;
      }
      case 4:
      case 5: {  // blocks in an order of their own
        std::vector<int> lengths, places;
        int left = n, place = draw.below(3);
        while (left > 0 && lengths.size() < 40) {
          const int length = lengths.size() == 39 ? left : 1 + draw.below(std::min(left, 1 + n / 3));
          lengths.push_back(length);
          places.push_back(place);
          place += length + draw.below(4);
          left -= length;
        }
        if (draw.one_in(3)) {
          std::reverse(lengths.begin(), lengths.end());
          std::reverse(places.begin(), places.end());
        }
        MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), base.type, &type);
        break;
      }
      default: {  // a struct
        const int first = draw.below(n + 1), lengths[] = {first, n - first};
        const MPI_Aint places[] = {0, MPI_Aint{base.size} * (first + 1 + draw.below(5))};
        const MPI_Datatype types[] = {base.type, base.type};
        MPI_Type_create_struct(2, lengths, places, types, &type);
      }
    }
    MPI_Type_commit(&type);
    made_.push_back(type);
    return type;
  }
  /// A layout of `n` basic elements: one of a type, or several of a smaller type.
  Layout layout(Draw& draw, const Element& base, int n) {
    if (n == 0) return {base.type, 0, 0};
    const int count = draw.one_in(2) ? 1 : divisor(draw, n);
    return span_of(make(draw, base, n / count), count);
  }
  static Layout span_of(MPI_Datatype type, int count) {
    MPI_Aint low, extent, true_low, true_extent;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_true_extent(type, &true_low, &true_extent);
    if (count == 0) return {type, 0, 0};
    return {type, count, static_cast<size_t>(true_low + true_extent + (count - 1) * extent)};
  }

 private:
  static int divisor(Draw& draw, int n) {
    std::vector<int> all;
    for (int i = 1; i <= n && i <= 64; ++i)
      if (n % i == 0) all.push_back(i);
    return all[static_cast<size_t>(draw.below(static_cast<int>(all.size())))];
  }
  int kinds_;
  std::vector<MPI_Datatype> made_;
};

/// Blocks of one side of a call, one behind the other.
struct Side {
  std::vector<int> counts, displacements;  ///< bytes, or extents with one type
  std::vector<MPI_Datatype> types;
  size_t bytes = 0;
  void add(Draw& draw, const Element& base, const Layout& layout) {
    const auto gap = static_cast<size_t>(base.size) * static_cast<size_t>(draw.below(4));
    counts.push_back(layout.count);
    types.push_back(layout.type);
    displacements.push_back(static_cast<int>(bytes + gap));
    bytes += gap + (layout.span + 15) / 16 * 16;
  }
  /// `count` elements of `type`, which has this extent, behind the others.
  void add(MPI_Datatype type, int count, MPI_Aint extent) {
    counts.push_back(count);
    types.push_back(type);
    displacements.push_back(next_);
    next_ += count;
    const Layout all = Types::span_of(type, next_);
    bytes = std::max(bytes, std::max(all.span, static_cast<size_t>(next_ * extent)));
  }

 private:
  int next_ = 0;
};

}  // namespace layouts
