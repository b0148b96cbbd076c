// SPDX-License-Identifier: BSD-3-Clause
// Alltoall, Alltoallv, Alltoallw: Bruck's algorithm (IEEE TPDS 8, 1997) for small blocks of many ranks;
// direct exchange in windows; pairwise in-place exchange.
#include "coll/algorithm/algorithms.hpp"
#include "coll/algorithm/tree.hpp"

namespace weft::coll::algorithm {
namespace {

/// Each round exchanges with a window of peers. All ranks use the same distances at a time, so that no rank
/// receives from all others at once. Copies the own block while the first transfers are in progress.
Round direct(const Call& call, int round, Stage& stage) {
  const Window window(round, 1, call.size);
  const auto own = [&] { stage.copy(call.recv.block(call.rank), call.send.block(call.rank)); };
  if (window.empty()) {
    if (round == 0) own();
    return Round::done;
  }
  for (int i = window.first; i < window.last; ++i) {
    const int source = call.wrap(call.rank - i);
    if (const p2p::Buffer block = call.recv.block(source); !empty(block)) stage.receive(block, source);
  }
  for (int i = window.first; i < window.last; ++i) {
    const int dest = call.wrap(call.rank + i);
    if (const p2p::Buffer block = call.send.block(dest); !empty(block)) stage.send(block, dest);
  }
  if (round == 0) own();
  return Round::more;
}

// In place: scratch holds the outgoing block while the incoming block overwrites it.
size_t in_place_scratch(const Call& call) {
  int64_t max_bytes = 0;
  for (int i = 0; i < call.size; ++i) max_bytes = std::max(max_bytes, packed_bytes(call.recv.block(i)));
  return static_cast<size_t>(max_bytes);
}

/// Round k pairs the ranks whose sum is k modulo P.
Round in_place(const Call& call, int round, Stage& stage) {
  if (round >= call.size) return Round::done;
  const int partner = call.wrap(round - call.rank);
  const p2p::Buffer block = call.recv.block(partner);
  if (partner == call.rank || empty(block)) return Round::more;
  const p2p::Buffer out = packed(call.scratch, static_cast<uint64_t>(packed_bytes(block)));
  stage.copy(out, block);
  stage.receive(block, partner);
  stage.send(out, partner);
  return Round::more;
}

// Bruck: P blocks, then the outgoing and the incoming blocks of one round.
size_t bruck_scratch(const Call& call) {
  return static_cast<size_t>(call.size + 2 * ((call.size + 1) / 2)) * call.bytes;
}

struct BruckBlocks {
  const Call& call;
  [[nodiscard]] p2p::Buffer at(int64_t block, int64_t n = 1) const {
    return packed(call.scratch + static_cast<uint64_t>(block) * call.bytes,
                  static_cast<uint64_t>(n) * call.bytes);
  }
  [[nodiscard]] int out() const { return call.size; }
  [[nodiscard]] int in() const { return call.size + (call.size + 1) / 2; }
  /// Calls f(block, position in the message) for the blocks sent over `distance`; returns their number.
  template <class F>
  int travelling(int64_t distance, F&& f) const {
    int n = 0;
    for (int block = 1; block < call.size; ++block)
      if ((block & distance) != 0) f(block, n++);
    return n;
  }
};

/// Block i moves i ranks up in total, one hop for each binary digit of i.
Round bruck(const Call& call, int round, Stage& stage) {
  const BruckBlocks blocks{call};
  const Operand& source = call.in_place ? call.recv : call.send;
  if (round == 0)
    for (int i = 0; i < call.size; ++i) stage.copy(blocks.at(i), source.block(call.wrap(call.rank + i)));
  else
    blocks.travelling(int64_t{1} << (round - 1),
                      [&](int block, int n) { stage.copy(blocks.at(block), blocks.at(blocks.in() + n)); });
  const int64_t distance = int64_t{1} << round;
  if (distance >= call.size) {
    for (int i = 0; i < call.size; ++i) stage.copy(call.recv.block(call.wrap(call.rank - i)), blocks.at(i));
    return Round::done;
  }
  const int step = static_cast<int>(distance);
  const int n = blocks.travelling(distance, [&](int block, int position) {
    stage.copy(blocks.at(blocks.out() + position), blocks.at(block));
  });
  stage.receive(blocks.at(blocks.in(), n), call.wrap(call.rank - step));
  stage.send(blocks.at(blocks.out(), n), call.wrap(call.rank + step));
  return Round::more;
}

}  // namespace

const Algorithm alltoall_direct{"direct", direct};
const Algorithm alltoall_in_place{"in_place", in_place, in_place_scratch};
const Algorithm alltoall_bruck{"bruck", bruck, bruck_scratch};

}  // namespace weft::coll::algorithm
