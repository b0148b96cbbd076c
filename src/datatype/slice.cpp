// SPDX-License-Identifier: BSD-3-Clause
// Slices: an arbitrary byte range of a packed stream as a datatype, built with the other constructors.
#include <memory>
#include <utility>
#include <vector>

#include "datatype/predefined.hpp"

namespace weft::datatype {
namespace {

struct CloseHandle {
  void operator()(Datatype* type) const { type->close_handle(); }
};
using Owned = std::unique_ptr<Datatype, CloseHandle>;

/// The runs of bytes [offset, offset + n) of the stream.
DatatypeResult runs_of(const Datatype& type, Count count, Count offset, Count n) {
  std::vector<Count> lengths, displacements;
  for_each_run(type, count, offset, n, [&](Count at, Count length) {
    displacements.push_back(at);
    lengths.push_back(length);
  });
  return hindexed(lengths, displacements, *predefined(kByte), Width::wide);
}

}  // namespace

DatatypeResult slice(Datatype& type, Count count, Count offset, Count n) {
  const Count size = type.size(), first = (offset + size - 1) / size, end = (offset + n) / size;
  if (first >= end) return runs_of(type, count, offset, n);
  DatatypeResult head = runs_of(type, count, offset, first * size - offset);
  if (!head) return head;
  const Owned own_head(*head);
  DatatypeResult tail = runs_of(type, count, end * size, offset + n - end * size);
  if (!tail) return tail;
  const Owned own_tail(*tail);
  const Count lengths[] = {1, end - first, 1}, displacements[] = {0, first * type.extent(), 0};
  Datatype* const parts[] = {*head, &type, *tail};
  return struct_(lengths, displacements, parts, Width::wide);
}

}  // namespace weft::datatype
