// SPDX-License-Identifier: BSD-3-Clause
// Shared by reduction algorithms: typed slices of vectors, typed scratch, and two phases. All operands are
// host memory, or all are memory of one GPU (Call::on_gpu): coll/schedule/copy.hpp mirrors other operands.
#pragma once
#include "coll/algorithm/order.hpp"
#include "coll/algorithm/tree.hpp"
#include "coll/schedule/schedule.hpp"

namespace weft::coll::algorithm {

/// Address of element `i` of a vector of the call's type.
inline void* element(const Call& call, const void* vector, int64_t i) {
  return advance(vector, i * call.recv.type->extent());
}

/// Elements [first, first + n) of a vector in an operand or in scratch.
p2p::Buffer slice(const Call& call, const void* vector, int64_t first, int64_t n);
inline p2p::Buffer slice(const Call& call, const void* vector, const Part& part) {
  return slice(call, vector, part.first, part.count);
}

/// Scratch as vectors of `n` elements.
struct ScratchVectors {
  ScratchVectors(const Call& call, int64_t n) : call_(call), layout_(*call.recv.type, n) {}
  [[nodiscard]] size_t bytes(int vectors) const { return layout_.bytes * static_cast<size_t>(vectors); }
  /// Element 0 of vector i.
  [[nodiscard]] void* at(int i) const {
    return call_.scratch + static_cast<size_t>(i) * layout_.bytes + layout_.origin;
  }

 private:
  const Call& call_;
  TypedLayout layout_;
};

/// The terms that this rank has combined. Terms of lower ranks are left operands, so the result of a step
/// lies in the buffer of its right operand: of two buffers, the partner's term uses the buffer without
/// combined terms. The algorithms keep no state: they repeat advance() for the steps before.
class Accumulator {
 public:
  /// `input` is this rank's term; it is only read, unless it is `first`.
  Accumulator(const void* input, void* first, void* second)
      : input_(input), data_(input), first_(first), second_(second) {}
  [[nodiscard]] const void* data() const { return data_; }
  [[nodiscard]] void* first() const { return first_; }
  /// The buffer for the term of a partner of higher (right) or lower rank.
  [[nodiscard]] void* landing(bool right) const {
    if (data_ == first_) return second_;
    return data_ == second_ || right ? first_ : second_;
  }
  void advance(bool right) {
    if (right)
      data_ = landing(true);
    else if (data_ == input_)
      data_ = first_;
  }
  /// Combines elements [first, first + n) with the term in landing(right); advances.
  void fold(const Call& call, Stage& stage, bool right, int64_t first, int64_t n);
  /// Copies elements [first, first + n) to the first buffer unless they are there.
  void finish(const Call& call, Stage& stage, int64_t first, int64_t n) const {
    if (data_ != first_) stage.copy(slice(call, first_, first, n), slice(call, data_, first, n));
  }

 private:
  const void *input_, *data_;
  void *first_, *second_;
};

/// Phase: recursive doubling. The first buffer of `acc` holds the result at the end.
Round recursive_doubling_phase(const Call& call, Accumulator acc, int round, Stage& stage);

/// The part of the vector that rank i reduces: its block in reduce-scatter, else one of P nearly equal parts.
Part share(const Call& call, int i);

/// Phase: every rank receives its share of all inputs directly and combines them. exchange()
/// adds the steps of each of rounds() rounds; then reduce() writes the result to `target`.
class DirectReduceScatter {
 public:
  explicit DirectReduceScatter(const Call& call)
      : call_(call), mine_(share(call, call.rank)), terms_(call, mine_.count) {}
  [[nodiscard]] static size_t scratch(const Call& call) {
    return DirectReduceScatter(call).terms_.bytes(call.size);
  }
  [[nodiscard]] static int rounds(const Call& call) { return Window::rounds(1, call.size); }
  [[nodiscard]] const Part& mine() const { return mine_; }
  void exchange(int round, Stage& stage) const;
  void reduce(void* target, Stage& stage) const;

 private:
  const Call& call_;
  Part mine_;
  ScratchVectors terms_;
};

}  // namespace weft::coll::algorithm
