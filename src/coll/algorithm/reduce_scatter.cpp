// SPDX-License-Identifier: BSD-3-Clause
// Reduce_scatter and Reduce_scatter_block: direct exchange; recursive doubling of the whole vector for small
// vectors of many ranks.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

Round direct(const Call& call, int round, Stage& stage) {
  const DirectReduceScatter phase(call);
  if (round < DirectReduceScatter::rounds(call)) {
    phase.exchange(round, stage);
    return Round::more;
  }
  phase.reduce(call.recv.address, stage);
  return Round::done;
}

size_t two_vectors(const Call& call) { return ScratchVectors(call, call.send.count).bytes(2); }

Round recursive_doubling(const Call& call, int round, Stage& stage) {
  const ScratchVectors vectors(call, call.send.count);
  const Accumulator acc(call.send.address, vectors.at(0), vectors.at(1));
  if (recursive_doubling_phase(call, acc, round, stage) == Round::more) return Round::more;
  const Part mine = share(call, call.rank);
  stage.copy(call.recv.part(0, mine.count), slice(call, vectors.at(0), mine));
  return Round::done;
}

}  // namespace

const Algorithm reduce_scatter_direct{"direct", direct, DirectReduceScatter::scratch};
const Algorithm reduce_scatter_recursive_doubling{"recursive_doubling", recursive_doubling, two_vectors};

}  // namespace weft::coll::algorithm
