// SPDX-License-Identifier: BSD-3-Clause
// Plan file: the plan of a process that starts later, in a memfd that mpiexec passes to the supervisor.
#pragma once
#include <optional>

#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

/// Returns the descriptor, owned by the caller; -1: see errno.
[[nodiscard]] int write_plan(const RankPlan& plan);
/// No value: not a plan.
[[nodiscard]] std::optional<RankPlan> read_plan(int file);

}  // namespace weft::mpiexec
