// SPDX-License-Identifier: BSD-3-Clause
// Algorithms composed of other algorithms in phases: inside each host and among the hosts' leaders, or in the
// groups of an intercommunicator and between their leaders.
#pragma once
#include "coll/schedule/schedule.hpp"

namespace weft::coll::hierarchy {

/// The hierarchical algorithm of a collective on several hosts; null if there is none.
[[nodiscard]] const Algorithm* hierarchical(Collective what);

/// The algorithm of a collective on an intercommunicator.
[[nodiscard]] const Algorithm& inter_algorithm(Collective what);

}  // namespace weft::coll::hierarchy
