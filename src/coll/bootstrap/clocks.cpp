// SPDX-License-Identifier: BSD-3-Clause
#include "coll/bootstrap/clocks.hpp"

#include <vector>

#include "base/clock.hpp"
#include "base/recorder.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/instance.hpp"

namespace weft::coll {
namespace {

constexpr int kRoundTrips = 24;  // the first ones open the connection

/// The first rank of each host, without the host of rank 0.
std::vector<int> first_ranks(const core::Communicator& world) {
  std::vector<int> firsts;
  std::vector<bool> seen;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto host = static_cast<size_t>(world.instance.host_of(world.process(rank)));
    if (host >= seen.size()) seen.resize(host + 1);
    if (!seen[host] && rank != 0) firsts.push_back(rank);
    seen[host] = true;
  }
  return firsts;
}

Status answer(core::Communicator& world, int rank, int tag) {
  for (int i = 0; i < kRoundTrips; ++i) {
    uint64_t time = 0;
    WEFT_TRY(receive_bytes(world, &time, sizeof time, rank, tag));
    time = monotonic_ns();
    WEFT_TRY(send_bytes(world, &time, sizeof time, rank, tag));
  }
  return {};
}

Status ask(core::Communicator& world, int tag) {
  uint64_t shortest = UINT64_MAX, when = 0;
  int64_t offset = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    uint64_t theirs = 0;
    const uint64_t begin = monotonic_ns();
    WEFT_TRY(send_bytes(world, &theirs, sizeof theirs, 0, tag));
    WEFT_TRY(receive_bytes(world, &theirs, sizeof theirs, 0, tag));
    const uint64_t end = monotonic_ns();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    when = begin + shortest / 2;
    offset = static_cast<int64_t>(theirs - when);
  }
  recorder::add_clock(when, offset, shortest / 2);
  return {};
}

}  // namespace

Status record_clocks(core::Communicator& world) {
  const int tag = world.next_collective_tag();
  for (const int rank : first_ranks(world)) {
    if (world.rank() == 0) WEFT_TRY(answer(world, rank, tag));
    if (world.rank() == rank) WEFT_TRY(ask(world, tag));
  }
  return {};
}

}  // namespace weft::coll
