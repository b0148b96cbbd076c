// SPDX-License-Identifier: BSD-3-Clause
// External launchers: srun of a Slurm allocation, prterun or Hydra start a job on other hosts. The functions
// translate mpiexec's command line for that launcher; mpiexec then replaces itself with it by exec.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/ssh_launcher.hpp"

namespace weft::mpiexec {

/// External launchers available on this host.
struct Launchers {
  std::string srun;       ///< path; empty: not installed, or no Slurm allocation
  std::string slurm_mpi;  ///< value for srun --mpi: "pmix" or "pmi2"; empty: neither is available
  std::string prterun, hydra;
  std::string job;  ///< SLURM_JOB_ID, printed in messages
  SshLauncher ssh{};
};
[[nodiscard]] Launchers find_launchers();

/// Command line and environment of the launcher that replaces mpiexec.
struct LauncherCommand {
  std::string launcher;  ///< printed in messages: "srun (Slurm job 7)"
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> variables;  ///< set before exec
  /// Contents of the files that the launcher reads through descriptors kFirstTextFd, kFirstTextFd + 1, ...
  std::vector<std::string> texts;
};
inline constexpr int kFirstTextFd = 20;

/// Returns true if the options name other hosts or select another launcher.
[[nodiscard]] bool needs_external_launcher(const Options& options);

/// `library_directory` as in plan_ranks(); `forwarded`: names of environment variables passed to the
/// processes.
[[nodiscard]] Result<LauncherCommand> plan_external_launcher(const Options& options,
                                                             const Launchers& launchers,
                                                             const std::string& library_directory,
                                                             const std::vector<std::string>& forwarded);

/// Replaces mpiexec with the external launcher by exec. Returns only on error.
[[nodiscard]] Error exec_external_launcher(const Options& options, const std::string& library_directory,
                                           char** environment);

}  // namespace weft::mpiexec
