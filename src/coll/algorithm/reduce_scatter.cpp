// SPDX-License-Identifier: BSD-3-Clause
// Reduce_scatter and Reduce_scatter_block: everyone to everyone, reduced in rank order; for small vectors of
// many ranks recursive doubling of the whole vector.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

Round spread(const Call& call, int round, Stage& stage) {
  const SpreadPhase phase(call);
  if (round < SpreadPhase::rounds(call)) {
    phase.exchange(round, stage);
    return Round::more;
  }
  phase.reduce(call.recv.address, stage);
  return Round::done;
}

size_t two_vectors(const Call& call) { return Areas(call, call.send.count).bytes(2); }

Round recursive_doubling(const Call& call, int round, Stage& stage) {
  const Areas areas(call, call.send.count);
  if (round == 0) stage.copy(piece(call, areas.at(0), 0, call.send.count), call.send.whole());
  if (recursive_doubling_phase(call, areas.at(0), areas.at(1), round, stage) == Round::more)
    return Round::more;
  const Part mine = share(call, call.rank);
  stage.copy(call.recv.part(0, mine.count), piece(call, areas.at(0), mine));
  return Round::done;
}

}  // namespace

const Algorithm reduce_scatter_spread{"spread", spread, SpreadPhase::scratch};
const Algorithm reduce_scatter_recursive_doubling{"recursive_doubling", recursive_doubling, two_vectors};

}  // namespace weft::coll::algorithm
