// SPDX-License-Identifier: BSD-3-Clause
// Layout: displacements of the bytes of one element, as a small tree of loops in packed order.
// Nodes are immutable and shared between types; the make_* functions coalesce.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "datatype/checked.hpp"

namespace weft::datatype {

struct Node;
using NodePtr = std::shared_ptr<const Node>;  ///< null: no bytes

/// `count` instances of `child`, `stride` bytes apart, the first at `displacement`.
struct LayoutEntry {
  Count displacement;
  Count count;
  Count stride;
  NodePtr child;
};

/// Arrays of the kinds equal_runs, varied_runs and list; shared by shifted copies of a node.
struct Table {
  std::vector<Count> displacement;   ///< equal_runs, varied_runs
  std::vector<Count> prefix;         ///< varied_runs, list: packed bytes before item i; items + 1 values
  std::vector<LayoutEntry> entries;  ///< list
};

/// One level of a layout. Displacements are relative to the element's address.
struct Node {
  enum class Kind : uint8_t {
    run,     ///< `length` bytes at `first`
    repeat,  ///< `count` instances of `child`, the first at `first`, `stride` apart; stride != child bytes
    equal_runs,   ///< `count` runs of `length` bytes at first + table->displacement[i]
    varied_runs,  ///< `count` runs of prefix[i + 1] - prefix[i] bytes at first + table->displacement[i]
    list          ///< `count` entries of the table, relative to `first`
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

/// Contiguous bytes in memory.
struct Run {
  Count displacement;
  Count length;
};

[[nodiscard]] NodePtr make_run(Count displacement, Count length);
[[nodiscard]] NodePtr make_shifted(const NodePtr& node, Count shift);
/// `count` instances of node, `stride` bytes apart, the first shifted by `shift`.
[[nodiscard]] NodePtr make_repeat(const NodePtr& node, Count count, Count stride, Count shift = 0);
/// Runs in packed order: merges adjacent runs, detects constant strides, drops empty runs.
[[nodiscard]] NodePtr make_runs(std::vector<Run> runs);
/// Entries in packed order; drops null children and zero counts.
[[nodiscard]] NodePtr make_list(std::vector<LayoutEntry> entries);

}  // namespace weft::datatype
