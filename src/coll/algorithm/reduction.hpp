// SPDX-License-Identifier: BSD-3-Clause
// What reduction algorithms share: typed pieces of vectors, typed scratch, and two phases used by several.
// All operands are host memory here, or all are memory of one GPU (Call::on_gpu): coll/copy.hpp mirrors
// others.
#pragma once
#include <bit>

#include "coll/algorithm/tree.hpp"
#include "coll/schedule.hpp"

namespace weft::coll::algorithm {

/// Address of element `i` of a vector of the call's type.
inline void* element(const Call& call, const void* vector, int64_t i) {
  return advance(vector, i * call.recv.type->extent());
}

/// Elements [first, first + n) of a vector: the call's operands or scratch.
p2p::Buffer piece(const Call& call, const void* vector, int64_t first, int64_t n);
inline p2p::Buffer piece(const Call& call, const void* vector, const Part& part) {
  return piece(call, vector, part.first, part.count);
}

/// Scratch as `areas` vectors of `n` elements.
struct Areas {
  Areas(const Call& call, int64_t n) : call_(call), span_(*call.recv.type, n) {}
  [[nodiscard]] size_t bytes(int areas) const { return span_.bytes * static_cast<size_t>(areas); }
  /// Element 0 of area i.
  [[nodiscard]] void* at(int i) const {
    return call_.scratch + static_cast<size_t>(i) * span_.bytes + span_.origin;
  }

 private:
  const Call& call_;
  Span span_;
};

/// How P ranks become a power of two: of the first 2 * extra ranks the even ones hand their input to the odd
/// ones and get the result back. The numbers keep the rank order.
struct Folding {
  int power, extra;
  bool in_pair;
  int node;  ///< this rank's number among `power`; -1 for those that handed over
  Folding(int rank, int size)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
        extra(size - power),
        in_pair(rank < 2 * extra),
        node(!in_pair        ? rank - extra
             : rank % 2 == 1 ? rank / 2
                             : -1) {}
  [[nodiscard]] int rank_of(int other) const { return other < extra ? 2 * other + 1 : other + extra; }
  [[nodiscard]] int steps() const { return std::countr_zero(static_cast<unsigned>(power)); }
  /// Rounds before the first step.
  [[nodiscard]] int before() const { return extra > 0 ? 1 : 0; }
};

/// Phase: recursive doubling in rank order. `acc` holds this rank's input, in the end everybody's result.
Round recursive_doubling_phase(const Call& call, void* acc, void* tmp, int round, Stage& stage);

/// The part of the vector that rank i reduces: its block in reduce-scatter, else one of P equal parts.
Part share(const Call& call, int i);

/// Phase: every rank gets its share of all inputs, reduced in rank order. exchange() adds the steps of
/// `round` and is false when there are none left; then reduce() puts the result at `target`.
class SpreadPhase {
 public:
  explicit SpreadPhase(const Call& call)
      : call_(call), mine_(share(call, call.rank)), slots_(call, mine_.count) {}
  [[nodiscard]] static size_t scratch(const Call& call) { return SpreadPhase(call).slots_.bytes(call.size); }
  [[nodiscard]] static int rounds(const Call& call) { return Window::rounds(1, call.size); }
  [[nodiscard]] const Part& mine() const { return mine_; }
  void exchange(int round, Stage& stage) const;
  void reduce(void* target, Stage& stage) const;

 private:
  const Call& call_;
  Part mine_;
  Areas slots_;
};

}  // namespace weft::coll::algorithm
