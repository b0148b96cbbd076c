// SPDX-License-Identifier: BSD-3-Clause
// Watch: samples what the ranks of a running job do, and reads their counters, from outside. Ranks are not
// stopped and do nothing for it.
#pragma once
#include <sys/types.h>

#include <map>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {

/// Shares of the time of one interval.
struct Shares {
  double inside = 0;    ///< in an MPI call
  double waiting = 0;   ///< in a wait that has been published
  double delaying = 0;  ///< the sum over the other ranks of their waits for this one
  std::map<int, double>
      delays;  ///< waits by the rank that they are for in the end; -1: unknown, kOtherJob, kAnyRank
};

/// Returns for each waiting rank the ranks that make it wait: it follows waits for ranks that wait themselves
/// to ranks that are outside of MPI, gone, or on another host. By rank in MPI_COMM_WORLD. Empty: unknown.
[[nodiscard]] std::map<int, std::vector<int>> delaying_ranks(const JobState& job);

/// `mpiexec --watch`: prints a line of JSON for each interval of `seconds` until the job has ended, or
/// `samples` of them. `process`: a rank, or a process whose descendants are ranks. Returns the exit code.
[[nodiscard]] Result<int> watch(pid_t process, double seconds, int samples);

/// `mpiexec --sample JOB,SECONDS,SAMPLES`: the same for the ranks of a job that are on this host; each line
/// also has their states (states.hpp) without waits that began in the interval, from which `weft top` draws
/// the conclusions about all hosts.
[[nodiscard]] Result<int> sample(const std::string& what);

}  // namespace weft::mpiexec
