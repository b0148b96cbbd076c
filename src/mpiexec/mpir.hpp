// SPDX-License-Identifier: BSD-3-Clause
// MPIR: the process acquisition interface (MPIR Process Acquisition Interface 1.0, MPI Forum): variables of
// mpiexec in which debuggers and other tools find the processes of the job.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::mpiexec {

/// An entry of MPIR_proctable.
struct PublishedProcess {
  std::string program;
  pid_t pid;
  int job, rank;  ///< 0: the first job, else the number of a spawned one; rank in its MPI_COMM_WORLD
};
/// Publishes all processes, those of spawned jobs behind the first job's, and calls MPIR_Breakpoint, where a
/// debugger stops mpiexec. New ranks wait in MPI_Init until mpiexec continues, so a tool may attach to any of
/// them meanwhile.
void publish_processes(std::vector<PublishedProcess> processes);
/// Notifies a debugger that the job ends because of a failure.
void publish_abort(const std::string& reason);

}  // namespace weft::mpiexec
