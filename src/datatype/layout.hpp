// SPDX-License-Identifier: BSD-3-Clause
// Layout: where the bytes of one element of a datatype are, as a small tree of loops in packed order.
// Nodes are immutable and shared between types; the make_* functions coalesce as they build.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "datatype/checked.hpp"

namespace weft::datatype {

struct Node;
using NodePtr = std::shared_ptr<const Node>;  ///< null: no bytes at all

/// Some copies of a child: `count` instances, the first at `displacement`, `stride` bytes apart.
struct Entry {
  Count displacement;
  Count count;
  Count stride;
  NodePtr child;
};

/// Arrays of the table kinds, shared by shifted copies of a node.
struct Table {
  std::vector<Count> displacement;  ///< equal_runs, varied_runs
  std::vector<Count> prefix;   ///< varied_runs, list: packed bytes before item i; one more than the items
  std::vector<Entry> entries;  ///< list
};

/// One level of a layout. Displacements are relative to the element's address.
struct Node {
  enum class Kind : uint8_t {
    run,     ///< `length` bytes at `first`
    repeat,  ///< `count` instances of `child`, the first at `first`, `stride` apart; stride != child bytes
    equal_runs,   ///< `count` runs of `length` bytes at first + table->displacement[i]
    varied_runs,  ///< `count` runs of prefix[i + 1] - prefix[i] bytes at first + table->displacement[i]
    list          ///< `count` entries of the table, each relative to `first`
  };
  Kind kind;
  Count size;  ///< packed bytes of one instance; never 0
  Count first = 0;
  Count count = 1;
  Count stride = 0;
  Count length = 0;
  NodePtr child;
  std::shared_ptr<const Table> table;
};

/// A stretch of bytes in memory.
struct Run {
  Count displacement;
  Count length;
};

[[nodiscard]] NodePtr make_run(Count displacement, Count length);
[[nodiscard]] NodePtr make_shifted(const NodePtr& node, Count shift);
/// `count` instances of node, `stride` bytes apart, the first shifted by `shift`.
[[nodiscard]] NodePtr make_repeat(const NodePtr& node, Count count, Count stride, Count shift = 0);
/// Runs in packed order; neighbours are merged, constant strides found. Takes empty runs.
[[nodiscard]] NodePtr make_runs(std::vector<Run> runs);
/// Entries in packed order; null children and zero counts are dropped.
[[nodiscard]] NodePtr make_list(std::vector<Entry> entries);

}  // namespace weft::datatype
