// SPDX-License-Identifier: BSD-3-Clause
// MPS monitor: the process that starts a private MPS control daemon for a job, and ends it and removes its
// folder when the job is over, however mpiexec and the supervisor have ended. README.md describes the order.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/mps_folder.hpp"

namespace weft::mpiexec {

struct MpsDaemonPlan {
  std::string control;                   ///< path of nvidia-cuda-mps-control
  std::vector<std::string> environment;  ///< of the daemon, without the variables of its folders
  std::string parent_folder;             ///< in which the folder of the job is created
  double start_timeout;                  ///< seconds in which the daemon must answer
  double quit_timeout;                   ///< seconds in which the daemon must quit; it is killed then
};

/// The running monitor, as mpiexec sees it.
class MpsMonitor {
 public:
  MpsMonitor() = default;
  MpsMonitor(const MpsMonitor&) = delete;
  MpsMonitor& operator=(const MpsMonitor&) = delete;

  /// Starts the monitor and returns when the daemon answers. The processes that are forked later keep the
  /// daemon alive: it outlives the supervisor and so the ranks, its clients. Preconditions: this process has
  /// no threads, and all its descriptors are close-on-exec. `argv`: of main(), to rename the monitor.
  [[nodiscard]] Status start(const MpsDaemonPlan& plan, char** argv);
  /// Ends the daemon and returns when no process of it and no folder is left. Returns what the user must
  /// know, such as that the daemon has ended before the job; empty: nothing. Precondition: the supervisor has
  /// exited.
  [[nodiscard]] std::string stop();
  [[nodiscard]] const MpsFolder& folder() const { return folder_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;  // the monitor ends the daemon when no process has it open any more
  double stop_timeout_ = 0;
  MpsFolder folder_;
};

}  // namespace weft::mpiexec
