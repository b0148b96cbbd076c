// SPDX-License-Identifier: BSD-3-Clause
// Texts that waits_report.cpp and waits_conclusions.cpp share.
#pragma once
#include <string>
#include <vector>

#include "mpiexec/waits.hpp"

namespace weft::mpiexec {

/// The state of a rank that is in no table.
inline constexpr char kNotFound[] = "found on no host (ended, or not through MPI_Init)";

/// Durations and streams are between marks, so that ranks form a group whatever theirs are.
[[nodiscard]] std::string without_marks(std::string text);
/// Returns "rank 3" or "ranks 0-3, 7".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);
[[nodiscard]] std::string communicator(const Wait& wait);
/// Returns true if a function of MPI is a collective, if it waits with a communicator and no peer.
[[nodiscard]] bool is_collective_call(const std::string& call);
/// Returns true if the wait is for one process, which is of no rank of MPI_COMM_WORLD.
[[nodiscard]] bool is_of_other_job(const Wait& wait);
/// Returns the state of a rank, with its waits, and marks.
[[nodiscard]] std::string describe_rank(const RankState& rank, const AllArrivals& all);
/// Returns "rank 1 sent tag 2": the message that a receive may have been meant for; empty: none is known.
[[nodiscard]] std::string unexpected_text(const Wait& wait);

}  // namespace weft::mpiexec
