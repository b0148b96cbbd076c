// SPDX-License-Identifier: BSD-3-Clause
// Barrier: dissemination (Hensgen, Finkel, Manber 1988). ceil(log2 P) rounds.
#include "coll/algorithm/algorithms.hpp"

namespace weft::coll::algorithm {
namespace {

Round dissemination(const Call& call, int round, Stage& stage) {
  const int64_t distance = int64_t{1} << round;
  if (distance >= call.size) return Round::done;
  const int step = static_cast<int>(distance);
  stage.receive(packed(nullptr, 0), (call.rank - step + call.size) % call.size);
  stage.send(packed(nullptr, 0), static_cast<int>((call.rank + distance) % call.size));
  return Round::more;
}

}  // namespace

const Algorithm barrier_dissemination{"dissemination", dissemination};

}  // namespace weft::coll::algorithm
