// SPDX-License-Identifier: BSD-3-Clause
// Layout traversal: visits the contiguous runs of any byte range of the packed stream. The seek takes one
// division or binary search per level. Visitors get complete strided groups, so that inner loops stay tight.
#pragma once
#include <algorithm>
#include <type_traits>

#include "datatype/layout.hpp"

namespace weft::datatype {

// A visitor V has three functions, which return false to stop:
//   bool run(Count displacement, Count length);
//   bool grid(Count displacement, Count length, Count stride, Count count,
//             Count outer_stride, Count outer_count);
//   bool scattered(Count base, const Count* displacements, Count count, Count length,
//                  Count outer_stride, Count outer_count);
// grid: outer_count groups of `count` runs that are `stride` bytes apart.
// scattered: outer_count groups of `count` runs at base + displacements[i]. Groups are outer_stride bytes
// apart.

/// Visits `count` complete instances of `node`, `stride` bytes apart.
template <class V>
bool walk_whole(const Node& node, Count base, Count stride, Count count, V& visitor) {
  base += node.first;
  switch (node.kind) {
    case Node::Kind::run:
      return visitor.grid(base, node.length, stride, count, 0, 1);
    case Node::Kind::repeat:
      if (const Node& child = *node.child; child.kind == Node::Kind::run)
        return visitor.grid(base + child.first, child.length, node.stride, node.count, stride, count);
      for (; count > 0; --count, base += stride)
        if (!walk_whole(*node.child, base, node.stride, node.count, visitor)) return false;
      return true;
    case Node::Kind::equal_runs:
      return visitor.scattered(base, node.table->displacement.data(), node.count, node.length, stride, count);
    case Node::Kind::varied_runs: {
      const Table& table = *node.table;
      for (; count > 0; --count, base += stride)
        for (size_t i = 0; i < table.displacement.size(); ++i)
          if (!visitor.run(base + table.displacement[i], table.prefix[i + 1] - table.prefix[i])) return false;
      return true;
    }
    case Node::Kind::list:
      for (; count > 0; --count, base += stride)
        for (const LayoutEntry& entry : node.table->entries)
          if (!walk_whole(*entry.child, base + entry.displacement, entry.stride, entry.count, visitor))
            return false;
      return true;
  }
  return true;
}

template <class V>
bool walk(const Node& node, Count base, Count skip, Count n, V& visitor);

/// Visits bytes [skip, skip + n) of consecutive instances of `child`, `stride` bytes apart.
template <class V>
bool walk_repeat(const Node& child, Count base, Count stride, Count skip, Count n, V& visitor) {
  if (skip != 0) {
    base += skip / child.size * stride;
    skip %= child.size;
  }
  if (skip != 0) {
    const Count part = std::min(n, child.size - skip);
    if (!walk(child, base, skip, part, visitor)) return false;
    n -= part;
    base += stride;
  }
  const Count whole = n / child.size;
  if (whole > 0 && !walk_whole(child, base, stride, whole, visitor)) return false;
  const Count rest = n - whole * child.size;
  return rest <= 0 || walk(child, base + whole * stride, 0, rest, visitor);
}

template <class V>
bool walk_equal_runs(const Node& node, Count base, Count skip, Count n, V& visitor) {
  const Count* displacement = node.table->displacement.data() + skip / node.length;
  if (const Count cut = skip % node.length; cut != 0) {
    const Count part = std::min(n, node.length - cut);
    if (!visitor.run(base + *displacement++ + cut, part)) return false;
    n -= part;
  }
  const Count whole = n / node.length;
  if (whole > 0 && !visitor.scattered(base, displacement, whole, node.length, 0, 1)) return false;
  const Count rest = n - whole * node.length;
  return rest <= 0 || visitor.run(base + displacement[whole], rest);
}

/// Returns the item of a prefix-sum table that contains byte `skip`; makes `skip` relative to the item.
inline size_t seek(const std::vector<Count>& prefix, Count& skip) {
  if (skip == 0) return 0;
  const auto after = std::upper_bound(prefix.begin(), prefix.end(), skip);
  const auto item = static_cast<size_t>(after - prefix.begin()) - 1;
  skip -= prefix[item];
  return item;
}

template <class V>
bool walk_varied_runs(const Node& node, Count base, Count skip, Count n, V& visitor) {
  const std::vector<Count>& prefix = node.table->prefix;
  for (size_t i = seek(prefix, skip); n > 0; ++i, skip = 0) {
    const Count part = std::min(n, prefix[i + 1] - prefix[i] - skip);
    if (!visitor.run(base + node.table->displacement[i] + skip, part)) return false;
    n -= part;
  }
  return true;
}

template <class V>
bool walk_list(const Node& node, Count base, Count skip, Count n, V& visitor) {
  const std::vector<Count>& prefix = node.table->prefix;
  for (size_t i = seek(prefix, skip); n > 0; ++i, skip = 0) {
    const LayoutEntry& entry = node.table->entries[i];
    const Count part = std::min(n, prefix[i + 1] - prefix[i] - skip);
    if (!walk_repeat(*entry.child, base + entry.displacement, entry.stride, skip, part, visitor))
      return false;
    n -= part;
  }
  return true;
}

/// Visits bytes [skip, skip + n) of one instance of `node` at displacement `base`. Requires n > 0 and
/// skip + n <= node.size.
template <class V>
bool walk(const Node& node, Count base, Count skip, Count n, V& visitor) {
  if (n == node.size) return walk_whole(node, base, 0, 1, visitor);
  base += node.first;
  switch (node.kind) {
    case Node::Kind::run:
      return visitor.run(base + skip, n);
    case Node::Kind::repeat:
      return walk_repeat(*node.child, base, node.stride, skip, n, visitor);
    case Node::Kind::equal_runs:
      return walk_equal_runs(node, base, skip, n, visitor);
    case Node::Kind::varied_runs:
      return walk_varied_runs(node, base, skip, n, visitor);
    case Node::Kind::list:
      return walk_list(node, base, skip, n, visitor);
  }
  return true;
}

/// Visits bytes [offset, offset + n), clipped to the stream, of `count` elements `extent` bytes apart.
/// Returns the bytes visited.
template <class V>
Count walk_elements(const Node* node, Count count, Count extent, Count offset, Count n, V& visitor) {
  if (node == nullptr || count <= 0) return 0;
  const Count total = node->size * count;
  if (offset >= total || n <= 0) return 0;
  n = std::min(n, total - offset);
  if (node->kind == Node::Kind::run && extent == node->length)
    visitor.run(node->first + offset, n);
  else if (count == 1)
    walk(*node, 0, offset, n, visitor);
  else if (node->kind == Node::Kind::repeat && extent == node->stride * node->count)
    walk_repeat(*node->child, node->first, node->stride, offset, n, visitor);
  else
    walk_repeat(*node, 0, extent, offset, n, visitor);
  return n;
}

/// Adapts a callable f(displacement, length) to the visitor's three functions.
template <class F>
struct RunVisitor {
  F& f;
  bool run(Count displacement, Count length) {
    if constexpr (std::is_void_v<decltype(f(displacement, length))>) {
      f(displacement, length);
      return true;
    } else {
      return f(displacement, length);
    }
  }
  bool grid(Count displacement, Count length, Count stride, Count count, Count outer_stride,
            Count outer_count) {
    for (; outer_count > 0; --outer_count, displacement += outer_stride)
      for (Count i = 0; i < count; ++i)
        if (!run(displacement + i * stride, length)) return false;
    return true;
  }
  bool scattered(Count base, const Count* displacements, Count count, Count length, Count outer_stride,
                 Count outer_count) {
    for (; outer_count > 0; --outer_count, base += outer_stride)
      for (Count i = 0; i < count; ++i)
        if (!run(base + displacements[i], length)) return false;
    return true;
  }
};

}  // namespace weft::datatype
