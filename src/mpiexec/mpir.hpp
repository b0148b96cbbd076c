// SPDX-License-Identifier: BSD-3-Clause
// MPIR: the process acquisition interface (MPIR Process Acquisition Interface 1.0, MPI Forum): variables of
// mpiexec in which debuggers and other tools find the processes of the job.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

/// Publishes the processes of a job by rank, and calls MPIR_Breakpoint, where a debugger stops mpiexec. Ranks
/// wait in MPI_Init until mpiexec continues, so a tool may attach to any of them meanwhile.
void publish_processes(const std::vector<RankPlan>& plans, const std::vector<pid_t>& pids);
/// Notifies a debugger that the job ends because of a failure.
void publish_abort(const std::string& reason);

}  // namespace weft::mpiexec
