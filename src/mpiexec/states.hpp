// SPDX-License-Identifier: BSD-3-Clause
// States: what the ranks of a host do, as text for another host, which joins the texts of all hosts of a job
// and draws the conclusions. A line per rank, wait, enqueued call and counter; fields are separated by tabs.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {

/// Begins the text of a host.
inline constexpr char kStatesTitle[] = "weft-states 2";

/// The state of a rank and its waits.
[[nodiscard]] std::string to_text(const RankState& rank);

/// Returns the jobs in the texts of one host or several, each text with its title; lines of counters are
/// ignored. Errc::arg: a text is not of this version.
[[nodiscard]] Result<std::vector<JobState>> parse_states(const std::string& texts);

/// `mpiexec --collect WHAT`: prints the text of this host. `what`: the id of a job, the id of a process, or
/// "all"; behind it ",counters": also the counters of the ranks; ",ids": no waits. Returns the exit code; a
/// job that is not here gives a title alone.
[[nodiscard]] Result<int> collect(const std::string& what);

/// `mpiexec --conclude HOW`: reads such texts from standard input, and prints what `mpiexec --waits` does,
/// for all jobs. `how`: words separated by commas: "json", and "whole" if the texts are of all hosts of the
/// jobs. Returns the exit code of --waits.
[[nodiscard]] Result<int> conclude(const std::string& how);

}  // namespace weft::mpiexec
