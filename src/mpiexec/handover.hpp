// SPDX-License-Identifier: BSD-3-Clause
// Handover: a job on other hosts is started by the launcher that is there: the srun of a Slurm allocation,
// prterun or Hydra. This translates Weft's command line into theirs; mpiexec then becomes that program.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

/// What this host has to offer.
struct Launchers {
  std::string srun;       ///< path; empty: not here, or there is no allocation
  std::string slurm_mpi;  ///< what srun --mpi takes: "pmix" or "pmi2"; empty: neither
  std::string prterun, hydra;
  std::string job;  ///< SLURM_JOB_ID, for the message
};
[[nodiscard]] Launchers find_launchers();

/// A command that takes our place.
struct Handover {
  std::string launcher;  ///< for the message: "srun (Slurm job 7)"
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> variables;  ///< to set before
  /// Texts that the command reads through the descriptors kFirstText, kFirstText + 1, ...
  std::vector<std::string> texts;
};
inline constexpr int kFirstText = 20;

/// True when the job needs another launcher: it names other hosts, or asks for one.
[[nodiscard]] bool wants_handover(const Options& options);

/// `library_directory` as of plan_ranks(); `forwarded`: names of the variables that the processes shall get.
[[nodiscard]] Result<Handover> plan_handover(const Options& options, const Launchers& launchers,
                                             const std::string& library_directory,
                                             const std::vector<std::string>& forwarded);

/// Plans and becomes the launcher. Returns only with an error.
[[nodiscard]] Error hand_over(const Options& options, const std::string& library_directory,
                              char** environment);

}  // namespace weft::mpiexec
