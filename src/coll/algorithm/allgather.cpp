// SPDX-License-Identifier: BSD-3-Clause
// Allgather and Allgatherv: recursive doubling (P a power of two) and Bruck's algorithm (IEEE TPDS 8, 1997)
// for small blocks; direct exchange of all pairs; ring.
#include <bit>

#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/tree.hpp"

namespace weft::coll::algorithm {
namespace {

void copy_own_block(const Call& call, int round, Stage& stage) {
  if (round == 0 && !call.in_place) stage.copy(call.recv.block(call.rank), call.send.whole());
}

/// Blocks [first, first + n) of the receive operand with equal blocks.
p2p::Buffer blocks(const Call& call, int first, int n) {
  return call.recv.part(first * call.recv.count, n * call.recv.count);
}

Round recursive_doubling(const Call& call, int round, Stage& stage) {
  copy_own_block(call, round, stage);
  const int64_t distance = int64_t{1} << round;
  if (distance >= call.size) return Round::done;
  const int n = static_cast<int>(distance), partner = call.rank ^ n;
  stage.receive(blocks(call, partner & ~(n - 1), n), partner);
  stage.send(blocks(call, call.rank & ~(n - 1), n), partner);
  return Round::more;
}

size_t bruck_scratch(const Call& call) { return static_cast<size_t>(call.size) * call.bytes; }

/// Block i of scratch belongs to rank + i; round k receives up to 2^k more blocks from rank + 2^k.
Round bruck(const Call& call, int round, Stage& stage) {
  const auto at = [&](int first, int n) {
    return packed(call.scratch + static_cast<uint64_t>(first) * call.bytes,
                  static_cast<uint64_t>(n) * call.bytes);
  };
  if (round == 0) stage.copy(at(0, 1), call.in_place ? call.recv.block(call.rank) : call.send.whole());
  const int64_t distance = int64_t{1} << round;
  if (distance >= call.size) {
    for (int i = 0; i < call.size; ++i) stage.copy(call.recv.block(call.wrap(call.rank + i)), at(i, 1));
    return Round::done;
  }
  const int have = static_cast<int>(distance), n = std::min(have, call.size - have);
  stage.receive(at(have, n), call.wrap(call.rank + have));
  stage.send(at(0, n), call.wrap(call.rank - have));
  return Round::more;
}

Round ring(const Call& call, int round, Stage& stage) {
  copy_own_block(call, round, stage);
  if (round >= call.size - 1) return Round::done;
  const p2p::Buffer in = call.recv.block(call.wrap(call.rank - round - 1));
  const p2p::Buffer out = call.recv.block(call.wrap(call.rank - round));
  if (!empty(in)) stage.receive(in, call.wrap(call.rank - 1));
  if (!empty(out)) stage.send(out, call.wrap(call.rank + 1));
  return Round::more;
}

/// Copies the own block while the first transfers are in progress.
Round direct(const Call& call, int round, Stage& stage) {
  const Window window(round, 1, call.size);
  if (window.empty()) {
    copy_own_block(call, round, stage);
    return Round::done;
  }
  const p2p::Buffer own = call.in_place ? call.recv.block(call.rank) : call.send.whole();
  for (int i = window.first; i < window.last; ++i) {
    const int source = call.wrap(call.rank - i);
    if (const p2p::Buffer block = call.recv.block(source); !empty(block)) stage.receive(block, source);
  }
  for (int i = window.first; i < window.last; ++i)
    if (!empty(own)) stage.send(own, call.wrap(call.rank + i));
  copy_own_block(call, round, stage);
  return Round::more;
}

}  // namespace

const Algorithm allgather_recursive_doubling{"recursive_doubling", recursive_doubling};
const Algorithm allgather_bruck{"bruck", bruck, bruck_scratch};
const Algorithm allgather_ring{"ring", ring};
const Algorithm allgather_direct{"direct", direct};

}  // namespace weft::coll::algorithm
