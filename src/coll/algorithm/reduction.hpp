// SPDX-License-Identifier: BSD-3-Clause
// Shared by reduction algorithms: typed slices of vectors, typed scratch, and two phases. All operands are
// host memory, or all are memory of one GPU (Call::on_gpu): coll/schedule/copy.hpp mirrors other operands.
#pragma once
#include <bit>

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

/// Reduces P ranks to a power of two: the even ranks among the first 2 * extra send their input to the next
/// odd rank and receive the result at the end. Node numbers keep the rank order.
struct PowerOfTwoFold {
  int power, extra;
  bool in_pair;
  int node;  ///< this rank's number among `power` nodes; -1 for the even ranks
  PowerOfTwoFold(int rank, int size)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
        extra(size - power),
        in_pair(rank < 2 * extra),
        node(!in_pair        ? rank - extra
             : rank % 2 == 1 ? rank / 2
                             : -1) {}
  [[nodiscard]] int rank_of(int other) const { return other < extra ? 2 * other + 1 : other + extra; }
  [[nodiscard]] int steps() const { return std::countr_zero(static_cast<unsigned>(power)); }
  /// Number of rounds before the first step.
  [[nodiscard]] int before() const { return extra > 0 ? 1 : 0; }
};

/// Phase: recursive doubling in rank order. `acc` holds this rank's input on entry and the result at the end.
Round recursive_doubling_phase(const Call& call, void* acc, void* tmp, int round, Stage& stage);

/// The part of the vector that rank i reduces: its block in reduce-scatter, else one of P nearly equal parts.
Part share(const Call& call, int i);

/// Phase: every rank receives its share of all inputs directly and reduces them in rank order. exchange()
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
