// SPDX-License-Identifier: BSD-3-Clause
// Tree: the tree of an agreement over the ranks that are not known to have failed. In the tree of all ranks
// the parent of a rank has 0 in place of the lowest digit that is not 0. A rank's parent here is its nearest
// live ancestor in that tree; without one, the lowest live rank, the root. Ranks with different knowledge of
// failures may disagree about the tree, never about its order: a parent has a lower rank.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace weft::ft {

class Tree {
 public:
  /// Bits of a digit. Hexadecimal digits: a level of the tree costs ranks that share cores a turn of all of
  /// them, and a rank with a core about a microsecond, as long as several messages of 15 take.
  static constexpr int kDigitBits = 4;
  Tree(int rank, int size, int digit_bits = kDigitBits)
      : rank_(rank), digit_bits_(digit_bits), failed_(static_cast<size_t>(size)) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(failed_.size()); }
  [[nodiscard]] bool failed(int rank) const { return failed_[static_cast<size_t>(rank)] != 0; }
  void fail(int rank) { failed_[static_cast<size_t>(rank)] = 1; }
  /// The own rank at the root.
  [[nodiscard]] int parent() const {
    const int ancestor = live_ancestor(rank_);
    return ancestor >= 0 ? ancestor : lowest();
  }
  /// Calls visit(rank) for each live rank whose parent is this one. Of a failed rank, its children are
  /// visited unless `covered(rank)`.
  template <class Visit, class Covered>
  void for_each_child(Visit&& visit, Covered&& covered) const {
    descend(rank_, visit, covered);
    if (rank_ != 0 && live_ancestor(rank_) < 0 && lowest() == rank_) adopt(0, visit, covered);
  }

 private:
  [[nodiscard]] int lowest() const {
    int rank = 0;
    while (failed(rank)) ++rank;
    return rank;
  }
  /// -1: all have failed, or it is rank 0.
  [[nodiscard]] int live_ancestor(int rank) const {
    while (rank != 0) {
      rank &= ~((place_of(rank) << digit_bits_) - 1);
      if (!failed(rank)) return rank;
    }
    return -1;
  }
  /// 1 in the place of the lowest digit that is not 0. `rank` > 0.
  [[nodiscard]] int place_of(int rank) const {
    return 1 << std::countr_zero(static_cast<unsigned>(rank)) / digit_bits_ * digit_bits_;
  }
  template <class Visit, class Covered>
  void descend(int rank, Visit& visit, Covered& covered) const {
    const int64_t limit = rank == 0 ? size() : place_of(rank);
    for (int64_t place = 1; place < limit; place <<= digit_bits_)
      for (int64_t digit = 1; digit < 1 << digit_bits_ && rank + digit * place < size(); ++digit)
        adopt(static_cast<int>(rank + digit * place), visit, covered);
  }
  /// A rank in the place of a child.
  template <class Visit, class Covered>
  void adopt(int child, Visit& visit, Covered& covered) const {
    if (child == rank_) return;
    if (!failed(child))
      visit(child);
    else if (!covered(child))
      descend(child, visit, covered);
  }

  int rank_, digit_bits_;
  std::vector<uint8_t> failed_;
};

}  // namespace weft::ft
