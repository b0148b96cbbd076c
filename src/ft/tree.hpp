// SPDX-License-Identifier: BSD-3-Clause
// Tree: the binomial tree of an agreement over the ranks that are not known to have failed. A rank's parent
// is its nearest live ancestor in the binomial tree of all ranks; without one, the lowest live rank, the
// root. Ranks with different knowledge of failures may disagree about the tree, never about its order: a
// parent has a lower rank.
#pragma once
#include <cstdint>
#include <vector>

namespace weft::ft {

class Tree {
 public:
  Tree(int rank, int size) : rank_(rank), failed_(static_cast<size_t>(size)) {}

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
      rank &= rank - 1;
      if (!failed(rank)) return rank;
    }
    return -1;
  }
  template <class Visit, class Covered>
  void descend(int rank, Visit& visit, Covered& covered) const {
    const int limit = rank == 0 ? size() : rank & -rank;
    for (int bit = 1; bit < limit && rank + bit < size(); bit <<= 1) adopt(rank + bit, visit, covered);
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

  int rank_;
  std::vector<uint8_t> failed_;
};

}  // namespace weft::ft
