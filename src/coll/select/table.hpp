// SPDX-License-Identifier: BSD-3-Clause
// Selection: which algorithm runs, by size and number of ranks, from one table. What it looks at is equal on
// all ranks, or they would run different programs: never the kind of memory, the layout or a root's
// arguments.
#pragma once
#include <climits>
#include <cstdint>
#include <span>

#include "coll/call.hpp"
#include "coll/schedule.hpp"

namespace weft::coll::select {

/// What an algorithm asks of a call.
enum class Needs : uint8_t { nothing, commutative, power_of_two, in_place, not_in_place };

/// The first row of a collective that fits decides.
struct Row {
  Collective what;
  const Algorithm* algorithm;
  Needs needs = Needs::nothing;
  int max_ranks = INT_MAX;
  uint64_t max_bytes = UINT64_MAX;  ///< of Call::bytes
  int min_ranks = 1;
};

[[nodiscard]] std::span<const Row> table();
[[nodiscard]] bool fits(const Row& row, const Call& call);
/// Whether the setting coll.<collective> names an algorithm.
[[nodiscard]] bool forced(Collective what);
/// The setting coll.<collective> where it names an algorithm that can do the call, else by hosts where there
/// are several, else by the table.
[[nodiscard]] const Algorithm& choose(const Call& call);
/// The same, but not by hosts.
[[nodiscard]] const Algorithm& by_table(const Call& call);

}  // namespace weft::coll::select
