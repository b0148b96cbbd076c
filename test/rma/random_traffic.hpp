// SPDX-License-Identifier: BSD-3-Clause
// Random one-sided traffic of kernels and its serial model, the same on all ranks. In each round disjoint
// segments of every rank's window are put by a scope of a rank or got by one, and atomic operations add to
// words. Each scope notifies all ranks at its end.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "rma/random_operations.hpp"

namespace weft::test::traffic {

struct Shape {
  int ranks, scopes;  ///< scopes of each rank
  uint64_t words;     ///< of each window
  uint64_t largest;   ///< words of a segment
};
/// The value of a word that is put.
inline int64_t value(uint64_t round, int target, uint64_t word) {
  return static_cast<int64_t>((round * 1000003 + static_cast<uint64_t>(target) * 7919 + word) * 2654435761u);
}

struct Plan {
  std::vector<Segment> segments;
  std::vector<Sum> sums;
  Plan(const Shape& shape, uint64_t round) {
    std::mt19937_64 random(round);
    const auto draw = [&](int n) { return static_cast<int32_t>(random() % static_cast<uint64_t>(n)); };
    const uint64_t most[] = {1, 4, 64, kInRecord, kInRecord + 188, shape.largest};
    constexpr Segment::Kind kKinds[] = {Segment::untouched, Segment::put, Segment::put, Segment::put_notify,
                                        Segment::get};
    for (int32_t target = 0; target < shape.ranks; ++target)
      for (uint64_t at = kSums; at < shape.words;) {
        const uint64_t words = std::min(shape.words - at, 1 + random() % most[draw(6)]);
        const Segment::Kind kind = kKinds[draw(5)];
        const int32_t origin = draw(shape.ranks), by = draw(shape.scopes);
        const auto notification = static_cast<uint32_t>(draw(kLast));
        segments.push_back(
            {kind, target, origin, by, at, words, notification, static_cast<uint32_t>(draw(3))});
        at += words;
      }
    for (int i = draw(6 * shape.ranks); i > 0; --i) {
      const int32_t target = draw(shape.ranks), origin = draw(shape.ranks), by = draw(shape.scopes);
      sums.push_back({target, origin, by, draw(kSums), draw(1000) - 500});
    }
  }
  /// The notifications that a rank gets in the round.
  [[nodiscard]] std::vector<uint64_t> notifications(const Shape& shape, int rank) const {
    std::vector<uint64_t> counts(kLast + 1);
    for (const Segment& segment : segments)
      if (segment.target == rank && segment.kind == Segment::put_notify) ++counts[segment.notification];
    counts[kLast] = static_cast<uint64_t>(shape.ranks * shape.scopes);
    return counts;
  }
};

/// The windows of all ranks.
using Model = std::vector<std::vector<int64_t>>;

inline void apply(const Plan& plan, uint64_t round, Model& model) {
  for (const Segment& segment : plan.segments)
    if (segment.kind == Segment::put || segment.kind == Segment::put_notify)
      for (uint64_t i = segment.first; i < segment.first + segment.words; ++i)
        model[static_cast<size_t>(segment.target)][i] = value(round, segment.target, i);
  for (const Sum& sum : plan.sums)
    model[static_cast<size_t>(sum.target)][static_cast<size_t>(sum.index)] += sum.value;
}

}  // namespace weft::test::traffic
