// SPDX-License-Identifier: BSD-3-Clause
// Scan and Exscan: recursive doubling (Hillis, Steele 1986): after round k a rank has combined the terms of
// 2^(k+1) ranks up to its own. Chain, for strict rank order: each rank receives the result of the rank below.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/reduction.hpp"

namespace weft::coll::algorithm {
namespace {

/// Sends `partial` 2^round ranks up and receives into `tmp`.
Round exchange_partial(const Call& call, void* partial, void* tmp, int round, Stage& stage) {
  const int64_t distance = int64_t{1} << round;
  if (distance >= call.size) return Round::done;
  const int step = static_cast<int>(distance);
  if (call.rank >= step) stage.receive(slice(call, tmp, 0, call.send.count), call.rank - step);
  if (call.rank + distance < call.size)
    stage.send(slice(call, partial, 0, call.send.count), call.rank + step);
  return Round::more;
}

/// True if the previous round has received a term.
bool received(const Call& call, int round) { return round > 0 && call.rank >= (int64_t{1} << (round - 1)); }

size_t one_vector(const Call& call) { return ScratchVectors(call, call.send.count).bytes(1); }
size_t two_vectors(const Call& call) { return ScratchVectors(call, call.send.count).bytes(2); }

Round scan(const Call& call, int round, Stage& stage) {
  void* tmp = ScratchVectors(call, call.send.count).at(0);
  if (round == 0 && !call.in_place) stage.copy(call.recv.whole(), call.send.whole());
  if (received(call, round)) stage.fold_left(tmp, call.recv.address, call.send.count);
  return exchange_partial(call, call.recv.address, tmp, round, stage);
}

Round exscan(const Call& call, int round, Stage& stage) {
  const ScratchVectors vectors(call, call.send.count);
  void *partial = vectors.at(0), *tmp = vectors.at(1);
  if (round == 0) stage.copy(slice(call, partial, 0, call.send.count), call.send.whole());
  if (received(call, round)) {
    if (round == 1)
      stage.copy(call.recv.whole(), slice(call, tmp, 0, call.send.count));
    else
      stage.fold_left(tmp, call.recv.address, call.send.count);
    stage.fold_left(tmp, partial, call.send.count);
  }
  return exchange_partial(call, partial, tmp, round, stage);
}

Round scan_chained(const Call& call, int round, Stage& stage) {
  void* tmp = ScratchVectors(call, call.send.count).at(0);
  if (round == 0) {
    if (!call.in_place) stage.copy(call.recv.whole(), call.send.whole());
    if (call.rank > 0) stage.receive(slice(call, tmp, 0, call.send.count), call.rank - 1);
    return Round::more;
  }
  if (round == 1 && call.rank > 0) stage.fold_left(tmp, call.recv.address, call.send.count);
  if (round > 1 || call.rank + 1 == call.size) return Round::done;
  stage.send(slice(call, call.recv.address, 0, call.send.count), call.rank + 1);
  return Round::more;
}

Round exscan_chained(const Call& call, int round, Stage& stage) {
  void* partial = ScratchVectors(call, call.send.count).at(0);
  if (round == 0) {
    stage.copy(slice(call, partial, 0, call.send.count), call.send.whole());
    if (call.rank > 0) stage.receive(slice(call, call.recv.address, 0, call.send.count), call.rank - 1);
    return Round::more;
  }
  if (round > 1 || call.rank + 1 == call.size) return Round::done;
  if (call.rank > 0) stage.fold_left(call.recv.address, partial, call.send.count);
  stage.send(slice(call, partial, 0, call.send.count), call.rank + 1);
  return Round::more;
}

}  // namespace

const Algorithm scan_recursive_doubling{"recursive_doubling", scan, one_vector};
const Algorithm exscan_recursive_doubling{"recursive_doubling", exscan, two_vectors};
const Algorithm scan_chain{"chain", scan_chained, one_vector};
const Algorithm exscan_chain{"chain", exscan_chained, one_vector};

}  // namespace weft::coll::algorithm
