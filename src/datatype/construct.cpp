// SPDX-License-Identifier: BSD-3-Clause
// Datatype constructors except arrays: each checks its arguments, computes bounds and layout, and records the
// contents for MPI_Type_get_contents.
#include <algorithm>
#include <string>
#include <utility>

#include "datatype/partial_type.hpp"
#include "datatype/store.hpp"

namespace weft::datatype {

Error too_large() {
  return {Errc::value_too_large,
          "the size or extent of the datatype does not fit 64 bits: use smaller counts, blocklengths or "
          "displacements"};
}

Error negative(const char* what, Count value) {
  return {Errc::arg, std::string(what) + " is " + std::to_string(value) + " (negative): pass 0 or more"};
}

PartialType partial_type_of(const Datatype& type) { return {type.bounds(), type.layout()}; }

void place_block(Bounds& total, const Bounds& part, Count copies, Count displacement, Count stride,
                 Checked& math) {
  if (copies == 0) return;
  const Count last = math.add(displacement, math.mul(copies - 1, stride));
  total.place(part, copies, std::min(displacement, last), std::max(displacement, last), math);
}

PartialType repeat(const PartialType& part, Count copies, Count stride, Count displacement, Checked& math) {
  PartialType result;
  place_block(result.bounds, part.bounds, copies, displacement, stride, math);
  result.bounds.finish(math);
  if (!math.overflow()) result.layout = make_repeat(part.layout, copies, stride, displacement);
  return result;
}

DatatypeResult make(PartialType partial, Contents contents) {
  Datatype* type = slab().create(partial.bounds, std::move(partial.layout), std::move(contents));
  if (type == nullptr)
    return Error(Errc::no_mem,
                 "no datatype can be created (all handles are in use): free some with MPI_Type_free");
  return type;
}

Recorder& Recorder::count(Count value) {
  if (contents_.width == Width::wide)
    contents_.counts.push_back(value);
  else
    contents_.integers.push_back(static_cast<int>(value));
  return *this;
}

Recorder& Recorder::counts(Counts values) {
  if (contents_.width == Width::wide)
    contents_.counts.insert(contents_.counts.end(), values.begin(), values.end());
  else
    contents_.integers.insert(contents_.integers.end(), values.begin(), values.end());
  return *this;
}

Recorder& Recorder::address(Count value) { return addresses({&value, 1}); }

Recorder& Recorder::addresses(Counts values) {
  auto& list = contents_.width == Width::wide ? contents_.counts : contents_.addresses;
  list.insert(list.end(), values.begin(), values.end());
  return *this;
}

namespace {

/// A vector with its stride in bytes.
PartialType partial_vector(Count count, Count blocklength, Count stride, const Datatype& old, Checked& math) {
  const PartialType block = repeat(partial_type_of(old), blocklength, old.extent(), 0, math);
  PartialType result;
  if (count == 0 || blocklength == 0) return result;
  // finish() pads the bounds of `block`; the type map places copies of the old type, so use its bounds.
  const Count last_block = math.mul(count - 1, stride);
  const Count last_in_block = math.mul(blocklength - 1, old.extent());
  result.bounds.place(old.bounds(), math.mul(count, blocklength),
                      math.add(std::min<Count>(last_block, 0), std::min<Count>(last_in_block, 0)),
                      math.add(std::max<Count>(last_block, 0), std::max<Count>(last_in_block, 0)), math);
  result.bounds.finish(math);
  if (!math.overflow()) result.layout = make_repeat(block.layout, count, stride);
  return result;
}

/// `length` elements of `type`, the first at `displacement`.
struct Block {
  const Datatype& type;
  Count length, displacement;
};

/// Layout of blocks 0 to n - 1; at(i) returns block i.
template <class At>
NodePtr layout_of_blocks(size_t n, At&& at) {
  std::vector<Run> runs;
  runs.reserve(n);
  size_t i = 0;
  for (; i < n; ++i) {
    const Block block = at(i);
    const Node* node = block.type.layout().get();
    if (node == nullptr || block.length == 0) continue;
    if (node->kind != Node::Kind::run || (block.length != 1 && block.type.extent() != node->length)) break;
    runs.push_back({block.displacement + node->first, block.length * node->length});
  }
  if (i == n) return make_runs(std::move(runs));
  std::vector<LayoutEntry> entries;
  entries.reserve(n);
  for (i = 0; i < n; ++i) {
    const Block block = at(i);
    entries.push_back({block.displacement, block.length, block.type.extent(), block.type.layout()});
  }
  return make_list(std::move(entries));
}

/// Blocks of one old type: lengths in elements (a single value applies to all blocks), displacements in units
/// of `unit` bytes.
PartialType partial_blocks(Counts lengths, Counts displacements, Count unit, const Datatype& old,
                           Checked& math) {
  const auto length = [&](size_t i) { return lengths.size() == 1 ? lengths[0] : lengths[i]; };
  const Count extent = old.extent();
  Count copies = 0, low = 0, high = 0;
  for (size_t i = 0; i < displacements.size(); ++i) {
    if (length(i) == 0) continue;
    const Count first = math.mul(displacements[i], unit);
    const Count last = math.add(first, math.mul(length(i) - 1, extent));
    low = copies == 0 ? std::min(first, last) : std::min({low, first, last});
    high = copies == 0 ? std::max(first, last) : std::max({high, first, last});
    copies = math.add(copies, length(i));
  }
  PartialType result;
  result.bounds.place(old.bounds(), copies, low, high, math);
  result.bounds.finish(math);
  if (!math.overflow())
    result.layout = layout_of_blocks(displacements.size(), [&](size_t i) {
      return Block{old, length(i), length(i) == 0 ? 0 : displacements[i] * unit};
    });
  return result;
}

Status check_blocks(Counts blocklengths, Counts displacements) {
  if (blocklengths.size() != displacements.size() && blocklengths.size() != 1)
    return Error(Errc::arg, "blocklengths and displacements have different lengths");
  for (const Count length : blocklengths)
    if (length < 0) return negative("a blocklength", length);
  return {};
}

DatatypeResult make_vector(Combiner combiner, Count count, Count blocklength, Count stride, Count unit,
                           Datatype& old, Width width) {
  if (count < 0) return Error(Errc::count, negative("count", count).message());
  if (blocklength < 0) return negative("blocklength", blocklength);
  Checked math;
  PartialType partial = partial_vector(count, blocklength, math.mul(stride, unit), old, math);
  if (math.overflow()) return too_large();
  Recorder record(combiner, width);
  record.count(count).count(blocklength);
  if (combiner == Combiner::hvector)
    record.address(stride);
  else
    record.count(stride);
  return make(std::move(partial), record.type(old).take());
}

DatatypeResult make_indexed(Combiner combiner, Counts blocklengths, Counts displacements, Count unit,
                            Datatype& old, Width width) {
  WEFT_TRY(check_blocks(blocklengths, displacements));
  Checked math;
  PartialType partial = partial_blocks(blocklengths, displacements, unit, old, math);
  if (math.overflow()) return too_large();
  Recorder record(combiner, width);
  record.count(static_cast<Count>(displacements.size())).counts(blocklengths);
  if (combiner == Combiner::hindexed || combiner == Combiner::hindexed_block)
    record.addresses(displacements);
  else
    record.counts(displacements);
  return make(std::move(partial), record.type(old).take());
}

}  // namespace

DatatypeResult dup(Datatype& old) {
  DatatypeResult made = make(partial_type_of(old), Recorder(Combiner::dup, Width::narrow).type(old).take());
  if (made && old.committed()) (*made)->commit();
  return made;
}

DatatypeResult contiguous(Count count, Datatype& old, Width width) {
  if (count < 0) return Error(Errc::count, negative("count", count).message());
  Checked math;
  PartialType partial = repeat(partial_type_of(old), count, old.extent(), 0, math);
  if (math.overflow()) return too_large();
  return make(std::move(partial), Recorder(Combiner::contiguous, width).count(count).type(old).take());
}

DatatypeResult vector(Count count, Count blocklength, Count stride, Datatype& old, Width width) {
  return make_vector(Combiner::vector, count, blocklength, stride, old.extent(), old, width);
}

DatatypeResult hvector(Count count, Count blocklength, Count stride, Datatype& old, Width width) {
  return make_vector(Combiner::hvector, count, blocklength, stride, 1, old, width);
}

DatatypeResult indexed(Counts blocklengths, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::indexed, blocklengths, displacements, old.extent(), old, width);
}

DatatypeResult hindexed(Counts blocklengths, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::hindexed, blocklengths, displacements, 1, old, width);
}

DatatypeResult indexed_block(Count blocklength, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::indexed_block, {&blocklength, 1}, displacements, old.extent(), old, width);
}

DatatypeResult hindexed_block(Count blocklength, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::hindexed_block, {&blocklength, 1}, displacements, 1, old, width);
}

DatatypeResult struct_(Counts blocklengths, Counts displacements, std::span<Datatype* const> types,
                       Width width) {
  if (blocklengths.size() != types.size() || displacements.size() != types.size())
    return Error(Errc::arg, "blocklengths, displacements and types have different lengths");
  for (const Count length : blocklengths)
    if (length < 0) return negative("a blocklength", length);
  Checked math;
  PartialType partial;
  for (size_t i = 0; i < types.size(); ++i)
    place_block(partial.bounds, types[i]->bounds(), blocklengths[i], displacements[i], types[i]->extent(),
                math);
  partial.bounds.finish(math);
  if (math.overflow()) return too_large();
  partial.layout = layout_of_blocks(types.size(), [&](size_t i) {
    return Block{*types[i], blocklengths[i], displacements[i]};
  });
  Recorder record(Combiner::structure, width);
  record.count(static_cast<Count>(types.size())).counts(blocklengths).addresses(displacements);
  for (Datatype* type : types) record.type(*type);
  return make(std::move(partial), record.take());
}

DatatypeResult resized(Datatype& old, Count lb, Count extent, Width width) {
  Checked math;
  PartialType partial = partial_type_of(old);
  partial.bounds.mark(lb, math.add(lb, extent));
  if (math.overflow()) return too_large();
  return make(std::move(partial),
              Recorder(Combiner::resized, width).address(lb).address(extent).type(old).take());
}

}  // namespace weft::datatype
