// SPDX-License-Identifier: BSD-3-Clause
// Selection: chooses the algorithm by size and number of ranks from one table. All inputs must be equal on
// all ranks, which otherwise run different algorithms: never the memory kind, the layout or arguments
// significant at the root only.
#pragma once
#include <climits>
#include <cstdint>
#include <span>

#include "coll/schedule/call.hpp"
#include "coll/schedule/schedule.hpp"

namespace weft::coll::select {

/// Requirement of an algorithm on a call.
enum class Requirement : uint8_t { none, commutative, power_of_two, in_place, not_in_place };

/// The first row of a collective that matches the call decides.
struct Row {
  Collective what;
  const Algorithm* algorithm;
  Requirement requirement = Requirement::none;
  int max_ranks = INT_MAX;
  uint64_t max_bytes = UINT64_MAX;  ///< upper bound of Call::bytes
  int min_ranks = 1;
};

[[nodiscard]] std::span<const Row> table();
[[nodiscard]] bool matches(const Row& row, const Call& call);
/// True if the setting coll.<collective> names an algorithm.
[[nodiscard]] bool forced(Collective what);
/// With coll.order=rank, the algorithm of that order; else the algorithm of the setting coll.<collective> if
/// it supports the call, else the algorithm of the table. For calls on intracommunicators, without
/// hierarchical algorithms.
[[nodiscard]] const Algorithm& by_table(const Call& call);
/// Adds a round of `inner`, a call on the communicator of the local group of the call's intercommunicator.
Round local_group_round(const Call& inner, const Call& call, int round, Stage& stage);

}  // namespace weft::coll::select
