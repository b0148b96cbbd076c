// SPDX-License-Identifier: BSD-3-Clause
// Plan: everything one rank is started with, fixed before any process exists, and the channels to it.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/binding.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

struct RankPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< "NAME=VALUE"
  std::string directory;                 ///< empty: the current one
  std::vector<int> cpus;                 ///< empty: as inherited
  int program = 0;                       ///< which of the job's programs
};

/// Descriptors of one rank: ours, and those it gets as 0, 1, 2 and kPmiFd. All close on exec.
struct Channels {
  int input = -1, output = -1, error = -1, pmi = -1;                          ///< mpiexec's ends
  int child_input = -1, child_output = -1, child_error = -1, child_pmi = -1;  ///< the rank's ends
};

/// The descriptor every rank finds its launcher at.
inline constexpr int kPmiFd = 3;

/// Where Weft's library lies, from the place of this executable (prefix/bin/mpiexec -> prefix/lib).
/// Empty: it is not there (a build folder); children then find it as they can.
[[nodiscard]] std::string library_directory();

/// The file that exec finds on a search path; the name itself when none is there.
[[nodiscard]] std::string find_on_path(const std::string& name, const std::string& path);

/// Adds the variables that make a program find Weft's library first.
void prefer_our_library(Program& program, const std::string& library_directory);

/// `job_id` names the job; `environment` is the one mpiexec was started with.
[[nodiscard]] std::vector<RankPlan> plan_ranks(const Options& options, const std::vector<Binding>& bindings,
                                               const std::string& job_id,
                                               const std::string& library_directory, char** environment);

/// Opens the channels of every rank. Rank 0's input is our own; the other ranks read from /dev/null.
[[nodiscard]] Result<std::vector<Channels>> open_channels(int ranks);

}  // namespace weft::mpiexec
