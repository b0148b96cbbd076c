// SPDX-License-Identifier: BSD-3-Clause
// Options: the command line of mpiexec, checked. Every option is one row of a table in options.cpp,
// from which parsing, --help and the messages about bad values come.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

/// One program of the job; several are separated by ":" on the command line.
struct Program {
  int ranks = 1;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> variables;  ///< -x NAME=VALUE
  std::string directory;                                       ///< empty: the current one
};

enum class BindTo {
  share,  ///< an equal share of the cores a rank when there is a core for each, else none
  core,
  none
};
enum class MapBy { slot, core, gpu };
enum class Launcher { automatic, weft, slurm, prrte, hydra };

struct Options {
  std::vector<Program> programs;
  BindTo bind_to = BindTo::share;
  MapBy map_by = MapBy::slot;
  Launcher launcher = Launcher::automatic;
  std::vector<Host> hosts;  ///< empty: this one
  bool tag_output = false;
  bool report_bindings = false;
  bool oversubscribe = false;
  double timeout = 0;  ///< seconds; 0: none
  bool help = false, version = false;
  std::vector<std::string> warnings;  ///< to print; the job starts nevertheless

  [[nodiscard]] int ranks() const;
};

/// Most ranks of a job.
inline constexpr int kMostRanks = 65536;

/// Parses argv[1...]. Errors name the option, the value and what would be right.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& arguments);
[[nodiscard]] std::string help_text();

}  // namespace weft::mpiexec
