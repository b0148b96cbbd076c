// SPDX-License-Identifier: BSD-3-Clause
// Pieces: bytes of a file as regular blocks, as sent from a rank to an aggregator; the datatype that places
// them in an aggregator's buffer; and the union of the pieces of all ranks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "io/backend/descriptor.hpp"
#include "io/view/typed_buffer.hpp"
#include "io/view/view.hpp"

namespace weft::io {

/// `count` blocks of `length` bytes, `stride` bytes apart, the first at `offset`.
struct Piece {
  int64_t offset, length, stride, count;
};

/// The pieces of bytes [stream, stream + n) of a view, in order.
[[nodiscard]] std::vector<Piece> pieces_of(const View& view, int64_t stream, int64_t n);
/// Number of bytes of ordered pieces before the file offset `end`.
[[nodiscard]] int64_t bytes_before(const std::vector<Piece>& pieces, int64_t end);

/// The first `n` bytes of the pieces, at `base` + file offset - `origin` in host memory.
[[nodiscard]] Status place(const std::vector<Piece>& pieces, std::byte* base, int64_t origin, int64_t n,
                           TypedBuffer& out);

/// Which bytes of a window are accessed: a bit for each byte.
class Coverage {
 public:
  /// Empties the set and moves it to a window.
  void reset(const Range& window);
  void add(const std::vector<Piece>& pieces);
  /// The ranges of the set in order; ranges with at most `gap` bytes between them are merged.
  [[nodiscard]] std::vector<Range> ranges(int64_t gap) const;

 private:
  void add(int64_t first, int64_t n);
  /// First bit at or after `from` that equals `value`; the number of bits if there is none.
  [[nodiscard]] int64_t find(int64_t from, bool value) const;
  Range window_;
  std::vector<uint64_t> words_;
};

}  // namespace weft::io
