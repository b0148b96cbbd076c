// SPDX-License-Identifier: BSD-3-Clause
// The binomial tree over relative ranks, and arithmetic of partitions and windows that algorithms share.
// A node's subtree is the ranks [node, node + subtree): lowest set bit of the node, cut at the number of
// ranks.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "coll/stage.hpp"

namespace weft::coll::algorithm {

/// A node of the binomial tree over [0, size).
struct TreeNode {
  int node, size;
  /// Ranks in the subtree of any node, itself included.
  [[nodiscard]] static int subtree(int node, int size) {
    return std::min(node == 0 ? size : node & -node, size - node);
  }
  [[nodiscard]] int subtree() const { return subtree(node, size); }
  [[nodiscard]] int parent() const { return node & (node - 1); }
  /// Children are node + 1, node + 2, node + 4, ...
  [[nodiscard]] int children() const { return std::bit_width(static_cast<unsigned>(subtree() - 1)); }
  [[nodiscard]] int child(int i) const { return node + (1 << i); }
};

/// Part i of `total` things cut into `parts` nearly equal parts.
struct Part {
  int64_t first, count;
  Part(int64_t total, int parts, int i)
      : first(edge(total, parts, i)), count(edge(total, parts, i + 1) - first) {}
  /// Parts [i, j) together.
  Part(int64_t total, int parts, int i, int j)
      : first(edge(total, parts, i)), count(edge(total, parts, j) - first) {}
  [[nodiscard]] static int64_t edge(int64_t total, int parts, int i) {
    return total / parts * i + std::min<int64_t>(i, total % parts);
  }
};

/// Peers 1 .. size-1 (or children 0 .. n-1) taken a window at a time.
struct Window {
  int first, last;  ///< [first, last)
  Window(int round, int begin, int end, int width = Stage::kWindow)
      : first(begin + round * width), last(std::min(first + width, end)) {}
  [[nodiscard]] bool empty() const { return first >= last; }
  [[nodiscard]] static int rounds(int begin, int end, int width = Stage::kWindow) {
    return end <= begin ? 0 : (end - begin + width - 1) / width;
  }
};

}  // namespace weft::coll::algorithm
