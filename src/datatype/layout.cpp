// SPDX-License-Identifier: BSD-3-Clause
// Layout construction: each function returns the most compact form it recognises in one pass.
#include "datatype/layout.hpp"

#include <utility>

namespace weft::datatype {

NodePtr make_run(Count displacement, Count length) {
  if (length == 0) return nullptr;
  return std::make_shared<Node>(Node{.kind = Node::Kind::run,
                                     .size = length,
                                     .first = displacement,
                                     .length = length,
                                     .child = nullptr,
                                     .table = nullptr});
}

NodePtr make_shifted(const NodePtr& node, Count shift) {
  if (node == nullptr || shift == 0) return node;
  auto copy = std::make_shared<Node>(*node);
  copy->first += shift;
  return copy;
}

NodePtr make_repeat(const NodePtr& node, Count count, Count stride, Count shift) {
  if (node == nullptr || count == 0) return nullptr;
  if (count == 1) return make_shifted(node, shift);
  if (node->kind == Node::Kind::run && stride == node->length)
    return make_run(node->first + shift, node->length * count);
  if (node->kind == Node::Kind::repeat && stride == node->stride * node->count) {
    auto longer = std::make_shared<Node>(*node);
    longer->first += shift;
    longer->count *= count;
    longer->size *= count;
    return longer;
  }
  return std::make_shared<Node>(Node{.kind = Node::Kind::repeat,
                                     .size = node->size * count,
                                     .first = shift,
                                     .count = count,
                                     .stride = stride,
                                     .child = node,
                                     .table = nullptr});
}

namespace {

/// Merges runs that are adjacent in memory and in packed order; drops empty runs.
void merge(std::vector<Run>& runs) {
  size_t kept = 0;
  for (const Run run : runs) {
    if (run.length == 0) continue;
    if (kept != 0 && runs[kept - 1].displacement + runs[kept - 1].length == run.displacement)
      runs[kept - 1].length += run.length;
    else
      runs[kept++] = run;
  }
  runs.resize(kept);
}

/// `equal`: all runs have the same length; `strided`: they also have a constant stride.
struct Regularity {
  bool equal = true, strided = true;
};

Regularity regularity(std::span<const Run> runs) {
  Regularity found;
  const Count stride = runs.size() > 1 ? runs[1].displacement - runs[0].displacement : 0;
  for (size_t i = 1; i < runs.size() && found.equal; ++i) {
    found.equal = runs[i].length == runs[0].length;
    found.strided = found.strided && runs[i].displacement - runs[i - 1].displacement == stride;
  }
  found.strided = found.strided && found.equal;
  return found;
}

NodePtr make_table(std::span<const Run> runs, bool equal) {
  auto table = std::make_shared<Table>();
  table->displacement.reserve(runs.size());
  for (const Run& run : runs) table->displacement.push_back(run.displacement);
  Node node{.kind = equal ? Node::Kind::equal_runs : Node::Kind::varied_runs,
            .size = 0,
            .count = static_cast<Count>(runs.size()),
            .length = equal ? runs[0].length : 0,
            .child = nullptr,
            .table = nullptr};
  if (equal) {
    node.size = node.count * node.length;
  } else {
    table->prefix.reserve(runs.size() + 1);
    for (const Run& run : runs) {
      table->prefix.push_back(node.size);
      node.size += run.length;
    }
    table->prefix.push_back(node.size);
  }
  node.table = std::move(table);
  return std::make_shared<Node>(std::move(node));
}

/// Returns true and sets `run` if the entry is a single run.
bool as_run(const LayoutEntry& entry, Run& run) {
  const Node& child = *entry.child;
  if (child.kind != Node::Kind::run || (entry.count != 1 && entry.stride != child.length)) return false;
  run = {entry.displacement + child.first, child.length * entry.count};
  return true;
}

/// Folds entries with the same child, count and stride into nested repeats; null if irregular.
NodePtr fold(std::span<const LayoutEntry> entries) {
  const LayoutEntry& head = entries[0];
  const bool several = entries.size() > 1 && entries[1].child == head.child;
  const Count stride = several ? entries[1].displacement - head.displacement : 0;
  for (size_t i = 1; i < entries.size(); ++i) {
    const LayoutEntry& entry = entries[i];
    if (entry.child != head.child || entry.count != head.count || entry.stride != head.stride ||
        entry.displacement - entries[i - 1].displacement != stride)
      return nullptr;
  }
  const auto inner = make_repeat(head.child, head.count, head.stride);
  return make_repeat(inner, static_cast<Count>(entries.size()), stride, head.displacement);
}

}  // namespace

NodePtr make_runs(std::vector<Run> runs) {
  merge(runs);
  if (runs.empty()) return nullptr;
  if (runs.size() == 1) return make_run(runs[0].displacement, runs[0].length);
  const Regularity found = regularity(runs);
  if (found.strided) {
    const Count stride = runs[1].displacement - runs[0].displacement;
    return make_repeat(make_run(0, runs[0].length), static_cast<Count>(runs.size()), stride,
                       runs[0].displacement);
  }
  return make_table(runs, found.equal);
}

NodePtr make_list(std::vector<LayoutEntry> entries) {
  std::erase_if(entries, [](const LayoutEntry& entry) { return entry.child == nullptr || entry.count == 0; });
  if (entries.empty()) return nullptr;
  std::vector<Run> runs;
  runs.reserve(entries.size());
  for (const LayoutEntry& entry : entries) {
    Run run{};
    if (!as_run(entry, run)) break;
    runs.push_back(run);
  }
  if (runs.size() == entries.size()) return make_runs(std::move(runs));
  if (NodePtr folded = fold(entries)) return folded;
  auto table = std::make_shared<Table>();
  Count size = 0;
  for (const LayoutEntry& entry : entries) {
    table->prefix.push_back(size);
    size += entry.count * entry.child->size;
  }
  table->prefix.push_back(size);
  table->entries = std::move(entries);
  Node node{.kind = Node::Kind::list,
            .size = size,
            .count = static_cast<Count>(table->entries.size()),
            .child = nullptr,
            .table = std::move(table)};
  return std::make_shared<Node>(std::move(node));
}

}  // namespace weft::datatype
