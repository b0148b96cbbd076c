// SPDX-License-Identifier: BSD-3-Clause
// Order of the terms of a reduction. All algorithms and shared memory combine in one tree, which depends on
// the number of ranks only, so that equal calls give equal bits on every path: with P = 2^k + e ranks, the
// first 2e ranks form pairs; pairs and single ranks, in rank order, are the leaves of a perfect binary tree.
// An operation always has the lower ranks as its left operand. With coll.order=rank: ((x0 op x1) op x2) op
// ...
#pragma once
#include <bit>

#include "coll/schedule/call.hpp"

namespace weft::coll::algorithm {

/// True if the setting or hint coll.order asks for strict rank order. Equal on all ranks.
[[nodiscard]] bool rank_order(const Call& call);

/// The leaves of the tree: nodes 0 .. power - 1, of which the first `extra` are pairs of ranks.
struct TreeShape {
  int power, extra;
  explicit TreeShape(int size)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extra(size - power) {}
  [[nodiscard]] bool is_pair(int node) const { return node < extra; }
  [[nodiscard]] int first_rank(int node) const { return is_pair(node) ? 2 * node : node + extra; }
  [[nodiscard]] int last_rank(int node) const { return first_rank(node) + (is_pair(node) ? 1 : 0); }
  [[nodiscard]] int node_of(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  /// Number of intermediate results that exist at once in combine(), besides the target.
  [[nodiscard]] static int depth(int size) {
    return size < 3 ? 0 : std::bit_width(static_cast<unsigned>(size - 1)) - 1;
  }
};

/// A rank's steps in the tree by messages. In step i >= 0 nodes of distance 2^i are partners, in step -1 the
/// two ranks of a pair: one sends its term to the other, which is active for the pair. The root is active.
struct TreeSteps : TreeShape {
  int rank, root, node;
  bool in_pair, active;
  TreeSteps(int of_rank, int size, int of_root = 0)
      : TreeShape(size),
        rank(of_rank),
        root(of_root),
        node(node_of(rank)),
        in_pair(is_pair(node)),
        active(rank == active_rank(node)) {}
  [[nodiscard]] int steps() const { return std::countr_zero(static_cast<unsigned>(power)); }
  /// Number of rounds before step 0.
  [[nodiscard]] int before() const { return extra > 0 ? 1 : 0; }
  [[nodiscard]] int first_step() const { return in_pair ? -1 : 0; }
  [[nodiscard]] int partner(int i) const { return i < 0 ? rank ^ 1 : active_rank(node ^ (1 << i)); }
  /// True if the partner's terms are of higher ranks.
  [[nodiscard]] bool right(int i) const { return ((i < 0 ? rank : node >> i) & 1) == 0; }
  [[nodiscard]] int active_rank(int of) const {
    return is_pair(of) && root / 2 == of ? root : first_rank(of);
  }
};

template <class Terms>
void combine_nodes(const Terms& terms, const TreeShape& shape, int node, int nodes, int depth, void* to) {
  const int first = shape.first_rank(node), last = shape.last_rank(node + nodes - 1);
  if (first == last) return terms.copy(first, to);
  if (last == first + 1) return terms.combine(terms.term(first), terms.term(last), to);
  const int half = nodes / 2, middle = node + half;
  void* const left = terms.scratch(shape.last_rank(middle - 1), depth);
  combine_nodes(terms, shape, node, half, depth + 1, left);
  if (shape.first_rank(middle) == last) return terms.combine(left, terms.term(last), to);
  combine_nodes(terms, shape, middle, half, depth + 1, to);
  terms.combine(left, to, to);
}

/// Combines the terms of `size` ranks in `to`. `terms` has term(rank); copy(rank, to); combine(left, right,
/// to): to = left op right, where `to` may be `right`; scratch(rank, i): memory for an intermediate result
/// whose last term is that of `rank`, with i < TreeShape::depth(size), or i < 2 in rank order. The term of
/// `rank` may be there.
template <class Terms>
void combine(const Terms& terms, int size, bool in_rank_order, void* to) {
  const TreeShape shape(size);
  if (!in_rank_order || size < 3) return combine_nodes(terms, shape, 0, shape.power, 0, to);
  const void* left = terms.term(0);
  for (int rank = 1; rank < size; ++rank) {
    void* const result = rank == size - 1 ? to : terms.scratch(rank, rank % 2);
    terms.combine(left, terms.term(rank), result);
    left = result;
  }
}

}  // namespace weft::coll::algorithm
