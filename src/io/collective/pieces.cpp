// SPDX-License-Identifier: BSD-3-Clause
#include "io/collective/pieces.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/assert.hpp"
#include "datatype/predefined.hpp"

namespace weft::io {
namespace {

using datatype::Width;

datatype::Datatype& byte() { return *datatype::predefined(datatype::kByte); }

}  // namespace

std::vector<Piece> pieces_of(const View& view, int64_t stream, int64_t n) {
  std::vector<Piece> pieces;
  view.for_each_run(stream, n, [&](int64_t at, int64_t length) {
    if (!pieces.empty()) {
      Piece& last = pieces.back();
      if (last.length == length && (last.count == 1 || at == last.offset + last.stride * last.count)) {
        if (last.count == 1) last.stride = at - last.offset;
        ++last.count;
        return true;
      }
    }
    pieces.push_back({at, length, length, 1});
    return true;
  });
  return pieces;
}

int64_t bytes_before(const std::vector<Piece>& pieces, int64_t end) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.offset >= end) break;
    const int64_t whole = std::min(piece.count - 1, (end - 1 - piece.offset) / piece.stride);
    bytes += whole * piece.length + std::min(piece.length, end - piece.offset - whole * piece.stride);
  }
  return bytes;
}

namespace {

struct CloseHandle {
  void operator()(datatype::Datatype* type) const { type->close_handle(); }
};

datatype::DatatypeResult type_of(const std::vector<Piece>& pieces, int64_t origin) {
  const auto simple = [](const Piece& piece) { return piece.count == 1; };
  std::vector<datatype::Count> lengths, displacements;
  for (const Piece& piece : pieces) {
    lengths.push_back(simple(piece) ? piece.length : 1);
    displacements.push_back(piece.offset - origin);
  }
  if (std::all_of(pieces.begin(), pieces.end(), simple))
    return datatype::hindexed(lengths, displacements, byte(), Width::wide);
  std::vector<std::unique_ptr<datatype::Datatype, CloseHandle>> own;
  std::vector<datatype::Datatype*> types;
  for (const Piece& piece : pieces) {
    if (simple(piece)) {
      types.push_back(&byte());
      continue;
    }
    auto made = datatype::hvector(piece.count, piece.length, piece.stride, byte(), Width::wide);
    if (!made) return made;
    own.emplace_back(*made);
    types.push_back(*made);
  }
  return datatype::struct_(lengths, displacements, types, Width::wide);
}

}  // namespace

Status place(const std::vector<Piece>& pieces, std::byte* base, int64_t origin, int64_t n, TypedBuffer& out) {
  WEFT_ASSERT(!pieces.empty());
  if (pieces.size() != 1 || pieces[0].count != 1) return out.set(base, type_of(pieces, origin), n);
  out.set(base + (pieces[0].offset - origin), n);
  return {};
}

void Coverage::reset(const Range& window) {
  window_ = window;
  words_.assign(static_cast<size_t>(window.bytes() + 63) / 64, 0);
}

void Coverage::add(int64_t first, int64_t n) {
  WEFT_ASSERT(first >= 0 && n > 0 && first + n <= window_.bytes());
  auto word = static_cast<size_t>(first / 64);
  const int64_t bit = first % 64;
  if (bit + n <= 64) {
    words_[word] |= (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit;
    return;
  }
  words_[word++] |= ~uint64_t{0} << bit;
  for (n -= 64 - bit; n >= 64; n -= 64) words_[word++] = ~uint64_t{0};
  if (n > 0) words_[word] |= (uint64_t{1} << n) - 1;
}

void Coverage::add(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces)
    for (int64_t i = 0; i < piece.count; ++i)
      add(piece.offset + i * piece.stride - window_.first, piece.length);
}

int64_t Coverage::find(int64_t from, bool value) const {
  const int64_t bits = window_.bytes();
  if (from >= bits) return bits;
  auto word = static_cast<size_t>(from / 64);
  uint64_t rest = (value ? words_[word] : ~words_[word]) & (~uint64_t{0} << (from % 64));
  while (rest == 0) {
    if (++word == words_.size()) return bits;
    rest = value ? words_[word] : ~words_[word];
  }
  return std::min(bits, static_cast<int64_t>(word) * 64 + std::countr_zero(rest));
}

std::vector<Range> Coverage::ranges(int64_t gap) const {
  std::vector<Range> found;
  for (int64_t first = find(0, true); first < window_.bytes();) {
    const int64_t end = find(first, false);
    const Range range{window_.first + first, window_.first + end};
    if (!found.empty() && range.first - found.back().end <= gap)
      found.back().end = range.end;
    else
      found.push_back(range);
    first = find(end, true);
  }
  return found;
}

}  // namespace weft::io
