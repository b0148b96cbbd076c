// SPDX-License-Identifier: BSD-3-Clause
// Slow oracle for collectives: inputs are a function of (rank, block, position), so every process computes
// every result alone, term by term in rank order. Buffers are 32-bit words with guards between the data.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace reference {

/// Returns word k of the block that `rank` contributes for `block`.
inline uint32_t input(int rank, int block, int64_t k) {
  uint64_t x =
      (static_cast<uint64_t>(rank) << 48) ^ (static_cast<uint64_t>(block) << 32) ^ static_cast<uint64_t>(k);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<uint32_t>(x ^ (x >> 31));
}

/// An affine map x -> a x + b over 32-bit words: composition is associative and does not commute.
struct Affine {
  uint32_t a, b;
  friend Affine operator*(Affine first, Affine second) {
    return {first.a * second.a, first.b * second.a + second.b};
  }
};

/// Words of an element and their positions, in words.
struct Layout {
  int words, extent, stride;
  [[nodiscard]] int64_t at(int64_t k) const { return k / words * extent + k % words * stride; }
};
inline constexpr Layout kWord{1, 1, 1};  ///< MPI_UINT32_T
inline constexpr Layout kPair{2, 2, 1};  ///< two words
inline constexpr Layout kGaps{2, 5, 3};  ///< two words with gaps between and after

/// A buffer whose unset words are guards.
class Field {
 public:
  Field(Layout layout, int64_t elements)
      : layout_(layout), words_(static_cast<size_t>(elements * layout.extent), kGuard) {}
  [[nodiscard]] const Layout& layout() const { return layout_; }
  uint32_t* data() { return words_.data(); }
  [[nodiscard]] size_t bytes() const { return words_.size() * sizeof(uint32_t); }
  /// Word k counted from element `first`.
  uint32_t& word(int64_t first, int64_t k) {
    return words_[static_cast<size_t>(first * layout_.extent + layout_.at(k))];
  }
  void clear() { std::fill(words_.begin(), words_.end(), kGuard); }
  bool operator==(const Field& other) const { return words_ == other.words_; }
  /// Returns the index of the first different word, or -1.
  [[nodiscard]] int64_t difference(const Field& other) const {
    for (size_t i = 0; i < words_.size(); ++i)
      if (words_[i] != other.words_[i]) return static_cast<int64_t>(i);
    return -1;
  }

 private:
  static constexpr uint32_t kGuard = 0xdeadbeef;
  Layout layout_;
  std::vector<uint32_t> words_;
};

/// Fills `count` elements of a block.
template <class F>
void fill(Field& field, int64_t first, int64_t count, F&& value) {
  for (int64_t k = 0; k < count * field.layout().words; ++k) field.word(first, k) = value(k);
}

/// Word k of input_0 op input_1 op ... op input_{last}: sums of words, or compositions of pairs.
inline uint32_t reduced(int last, int64_t k, bool affine) {
  if (!affine) {
    uint32_t sum = 0;
    for (int rank = 0; rank <= last; ++rank) sum += input(rank, 0, k);
    return sum;
  }
  Affine result{1, 0};
  for (int rank = 0; rank <= last; ++rank)
    result = result * Affine{input(rank, 0, k / 2 * 2), input(rank, 0, k / 2 * 2 + 1)};
  return k % 2 == 0 ? result.a : result.b;
}

}  // namespace reference
