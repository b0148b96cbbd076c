// SPDX-License-Identifier: BSD-3-Clause
// Spawn plan: the plans of the processes that a running job starts (MPI_Comm_spawn), from its request with
// the info keys of MPI 5.0 section 11.8.4 and of other MPIs.
#pragma once
#include <set>
#include <vector>

#include "launch/launch.hpp"
#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

/// Settings that later jobs inherit from the command line of mpiexec.
struct SpawnDefaults {
  const Options& options;
  const std::string& library_directory;
  char** environment;
};

/// CPUs and GPUs of the running processes of the job; others are preferred.
struct Busy {
  std::set<int> cpus;
  std::vector<size_t> gpus;  ///< number of processes of each visible GPU; those after the last have none
};

/// Returns one plan per process.
/// Errc::spawn: this mpiexec cannot start the processes as requested.
[[nodiscard]] Result<std::vector<RankPlan>> plan_spawned(const launch::SpawnRequest& request,
                                                         const std::string& job_id,
                                                         const SpawnDefaults& defaults, const Busy& busy);

}  // namespace weft::mpiexec
