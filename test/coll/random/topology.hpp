// SPDX-License-Identifier: BSD-3-Clause
// Teams with a topology: random grids and graphs with the edges that the standard defines.
#pragma once
#include "coll/random/team.hpp"

namespace randomized {

[[nodiscard]] Team with_topology(const Team& from, Draw& draw);

}  // namespace randomized
