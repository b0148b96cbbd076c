// SPDX-License-Identifier: BSD-3-Clause
// Datatype constructors, except the array ones: each checks its arguments, works out bounds and layout
// from Pieces, and records the contents for MPI_Type_get_contents.
#include <algorithm>
#include <string>
#include <utility>

#include "datatype/piece.hpp"
#include "datatype/store.hpp"

namespace weft::datatype {

Error too_large() {
  return {Errc::value_too_large,
          "the datatype's size or extent does not fit 64 bits (counts, blocklengths and displacements are "
          "multiplied): use smaller ones"};
}

Error negative(const char* what, Count value) {
  return {Errc::arg, std::string(what) + " is " + std::to_string(value) + " (negative): pass 0 or more"};
}

Piece piece_of(const Datatype& type) { return {type.bounds(), type.layout()}; }

void place_block(Bounds& total, const Bounds& part, Count copies, Count displacement, Count stride,
                 Checked& math) {
  if (copies == 0) return;
  const Count last = math.add(displacement, math.mul(copies - 1, stride));
  total.place(part, copies, std::min(displacement, last), std::max(displacement, last), math);
}

Piece repeat(const Piece& part, Count copies, Count stride, Count displacement, Checked& math) {
  Piece result;
  place_block(result.bounds, part.bounds, copies, displacement, stride, math);
  result.bounds.finish(math);
  if (!math.overflow()) result.layout = make_repeat(part.layout, copies, stride, displacement);
  return result;
}

Made make(Piece piece, Contents contents) {
  Datatype* type = slab().create(piece.bounds, std::move(piece.layout), std::move(contents));
  if (type == nullptr)
    return Error(Errc::no_mem,
                 "no datatype can be made (all handles are in use): free some with MPI_Type_free");
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

/// A vector with the stride in bytes, not yet a Datatype.
Piece vector_piece(Count count, Count blocklength, Count stride, const Datatype& old, Checked& math) {
  const Piece block = repeat(piece_of(old), blocklength, old.extent(), 0, math);
  Piece result;
  if (count == 0 || blocklength == 0) return result;
  // The block's bounds are padded by finish(); the true type map places the old type, so its bounds are used.
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

/// The layout of blocks number 0 to n - 1, which at() gives.
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
  std::vector<Entry> entries;
  entries.reserve(n);
  for (i = 0; i < n; ++i) {
    const Block block = at(i);
    entries.push_back({block.displacement, block.length, block.type.extent(), block.type.layout()});
  }
  return make_list(std::move(entries));
}

/// Blocks of one old type: lengths in elements (one for all when `lengths` has one), displacements times
/// `unit` bytes.
Piece blocks_piece(Counts lengths, Counts displacements, Count unit, const Datatype& old, Checked& math) {
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
  Piece result;
  result.bounds.place(old.bounds(), copies, low, high, math);
  result.bounds.finish(math);
  if (!math.overflow())
    result.layout = layout_of_blocks(displacements.size(), [&](size_t i) {
      return Block{old, length(i), displacements[i] * unit};
    });
  return result;
}

Status check_blocks(Counts blocklengths, Counts displacements) {
  if (blocklengths.size() != displacements.size() && blocklengths.size() != 1)
    return Error(Errc::arg, "blocklengths and displacements differ in number");
  for (const Count length : blocklengths)
    if (length < 0) return negative("a blocklength", length);
  return {};
}

Made make_vector(Combiner combiner, Count count, Count blocklength, Count stride, Count unit, Datatype& old,
                 Width width) {
  if (count < 0) return Error(Errc::count, negative("count", count).message());
  if (blocklength < 0) return negative("blocklength", blocklength);
  Checked math;
  Piece piece = vector_piece(count, blocklength, math.mul(stride, unit), old, math);
  if (math.overflow()) return too_large();
  Recorder record(combiner, width);
  record.count(count).count(blocklength);
  if (combiner == Combiner::hvector)
    record.address(stride);
  else
    record.count(stride);
  return make(std::move(piece), record.type(old).take());
}

Made make_indexed(Combiner combiner, Counts blocklengths, Counts displacements, Count unit, Datatype& old,
                  Width width) {
  WEFT_TRY(check_blocks(blocklengths, displacements));
  Checked math;
  Piece piece = blocks_piece(blocklengths, displacements, unit, old, math);
  if (math.overflow()) return too_large();
  Recorder record(combiner, width);
  record.count(static_cast<Count>(displacements.size())).counts(blocklengths);
  if (combiner == Combiner::hindexed || combiner == Combiner::hindexed_block)
    record.addresses(displacements);
  else
    record.counts(displacements);
  return make(std::move(piece), record.type(old).take());
}

}  // namespace

Made dup(Datatype& old) {
  Made made = make(piece_of(old), Recorder(Combiner::dup, Width::narrow).type(old).take());
  if (made && old.committed()) (*made)->commit();
  return made;
}

Made contiguous(Count count, Datatype& old, Width width) {
  if (count < 0) return Error(Errc::count, negative("count", count).message());
  Checked math;
  Piece piece = repeat(piece_of(old), count, old.extent(), 0, math);
  if (math.overflow()) return too_large();
  return make(std::move(piece), Recorder(Combiner::contiguous, width).count(count).type(old).take());
}

Made vector(Count count, Count blocklength, Count stride, Datatype& old, Width width) {
  return make_vector(Combiner::vector, count, blocklength, stride, old.extent(), old, width);
}

Made hvector(Count count, Count blocklength, Count stride, Datatype& old, Width width) {
  return make_vector(Combiner::hvector, count, blocklength, stride, 1, old, width);
}

Made indexed(Counts blocklengths, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::indexed, blocklengths, displacements, old.extent(), old, width);
}

Made hindexed(Counts blocklengths, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::hindexed, blocklengths, displacements, 1, old, width);
}

Made indexed_block(Count blocklength, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::indexed_block, {&blocklength, 1}, displacements, old.extent(), old, width);
}

Made hindexed_block(Count blocklength, Counts displacements, Datatype& old, Width width) {
  return make_indexed(Combiner::hindexed_block, {&blocklength, 1}, displacements, 1, old, width);
}

Made struct_(Counts blocklengths, Counts displacements, std::span<Datatype* const> types, Width width) {
  if (blocklengths.size() != types.size() || displacements.size() != types.size())
    return Error(Errc::arg, "blocklengths, displacements and types differ in number");
  for (const Count length : blocklengths)
    if (length < 0) return negative("a blocklength", length);
  Checked math;
  Piece piece;
  for (size_t i = 0; i < types.size(); ++i)
    place_block(piece.bounds, types[i]->bounds(), blocklengths[i], displacements[i], types[i]->extent(),
                math);
  piece.bounds.finish(math);
  if (math.overflow()) return too_large();
  piece.layout = layout_of_blocks(types.size(), [&](size_t i) {
    return Block{*types[i], blocklengths[i], displacements[i]};
  });
  Recorder record(Combiner::structure, width);
  record.count(static_cast<Count>(types.size())).counts(blocklengths).addresses(displacements);
  for (Datatype* type : types) record.type(*type);
  return make(std::move(piece), record.take());
}

Made resized(Datatype& old, Count lb, Count extent, Width width) {
  Checked math;
  Piece piece = piece_of(old);
  piece.bounds.mark(lb, math.add(lb, extent));
  if (math.overflow()) return too_large();
  return make(std::move(piece),
              Recorder(Combiner::resized, width).address(lb).address(extent).type(old).take());
}

}  // namespace weft::datatype
