// SPDX-License-Identifier: BSD-3-Clause
// The binomial tree over relative ranks, partitions and windows. The subtree of a node consists of the ranks
// [node, node + subtree): its size is the lowest set bit of the node, limited by the number of ranks.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "coll/schedule/stage.hpp"

namespace weft::coll::algorithm {

/// A node of the binomial tree over [0, size).
struct TreeNode {
  int node, size;
  /// Number of ranks in the subtree of a node, including the node.
  [[nodiscard]] static int subtree(int node, int size) {
    return std::min(node == 0 ? size : node & -node, size - node);
  }
  [[nodiscard]] int subtree() const { return subtree(node, size); }
  [[nodiscard]] int parent() const { return node & (node - 1); }
  /// Children are node + 1, node + 2, node + 4, ...
  [[nodiscard]] int children() const { return std::bit_width(static_cast<unsigned>(subtree() - 1)); }
  [[nodiscard]] int child(int i) const { return node + (1 << i); }
};

/// Scratch bytes of a gather or scatter along the tree: the packed blocks of this rank's subtree, which are
/// contiguous in the order of relative ranks; none at a leaf.
[[nodiscard]] inline size_t tree_scratch(const Call& call) {
  const TreeNode self{call.relative(), call.size};
  return self.children() == 0 ? 0 : static_cast<size_t>(self.subtree()) * call.bytes;
}

/// Blocks [first, first + n) of the scratch memory.
[[nodiscard]] inline p2p::Buffer tree_blocks(const Call& call, int first, int n) {
  return packed(call.scratch + static_cast<uint64_t>(first) * call.bytes,
                static_cast<uint64_t>(n) * call.bytes);
}

/// Part i of `total` elements in `parts` nearly equal parts.
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

/// A window of peers 1 .. size-1 (or children 0 .. n-1), one window per round.
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
