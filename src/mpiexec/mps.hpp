// SPDX-License-Identifier: BSD-3-Clause
// MPS: --mps on. The ranks share GPUs through NVIDIA's multi-process service: that of the site if it runs,
// else a private daemon of the job, which a monitor ends with the job (mps_monitor.hpp).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/mps_monitor.hpp"
#include "mpiexec/nvidia_smi.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

/// Seconds in which a control daemon must answer, and in which it must quit.
inline constexpr double kMpsStartSeconds = 20, kMpsQuitSeconds = 3;

/// The value that the ranks get for a variable: of -x, else of the environment; empty: none.
[[nodiscard]] std::string rank_variable(const Options& options, const std::string& name);

/// Returns true if a control daemon that serves this user, one of root or of the user, accepts connections in
/// this pipe folder. A connection needs no permission to control the daemon, which commands of
/// nvidia-cuda-mps-control do.
[[nodiscard]] bool mps_daemon_answers(const std::string& pipe_folder);

/// Returns the folder in which private daemons get theirs: TMPDIR, or /tmp where the path of a socket would
/// be too long.
[[nodiscard]] std::string mps_parent_folder(const char* tmpdir);

/// Refuses GPUs that a private daemon can't share.
[[nodiscard]] Status check_mps_gpus(const std::vector<GpuState>& gpus);

/// The service of one job.
class Mps {
 public:
  /// Finds the daemon of the site or starts a private one, and adds the variables by which the programs find
  /// it. Does nothing without --mps on. Preconditions as for MpsMonitor::start().
  [[nodiscard]] Status start(Options& options, char** argv);
  /// Ends the private daemon, and prints what the user must know. Precondition: the ranks have ended.
  void stop();

 private:
  MpsMonitor monitor_;
};

}  // namespace weft::mpiexec
