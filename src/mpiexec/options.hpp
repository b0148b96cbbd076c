// SPDX-License-Identifier: BSD-3-Clause
// Options: parses and validates mpiexec's command line. The table in options.cpp has one row per option and
// drives parsing, --help and error texts.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/gpu_bind.hpp"
#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

/// One program of the job; several are separated by ":" on the command line.
struct Program {
  int ranks = 1;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> variables;  ///< -x NAME=VALUE
  std::string directory;                                       ///< empty: the current directory
  bool python = false;       ///< argv is a Python program with its arguments
  std::string counted_by{};  ///< option that has set `ranks`; empty: none
};

enum class BindTo {
  share,  ///< equal share of the cores per rank if ranks <= cores, else unbound
  core,
  package,
  numa,
  l3cache,
  none
};
/// Objects over which ranks are distributed; slot: the host itself; node: the hosts in turns.
enum class MapBy { slot, core, gpu, package, numa, l3cache, node };
/// Order of the ranks' numbers. mapping: as --map-by places them; fill: consecutive ranks beside each other;
/// the others: in turns over these objects.
enum class RankBy { mapping, fill, package, numa, l3cache };
/// Labels of the lines of output: the forms of Open MPI (tag, full_tag, rank) and of other launchers.
enum class Labels { none, tag, full_tag, rank, hydra, gforker, pals, slurm, time, pattern };
enum class Launcher { automatic, weft, slurm, prrte, hydra };

struct Options {
  std::vector<Program> programs;
  BindTo bind_to = BindTo::share;
  MapBy map_by = MapBy::slot;
  Launcher launcher = Launcher::automatic;
  std::vector<Host> hosts;  ///< empty: this host
  int per_host = 0;         ///< ranks of each host; 0: unspecified
  int per_object = 0;       ///< ranks of each object of map_by, in order; 0: one object after the other
  int cores_per_rank = 0;   ///< 0: one with a binding to cores, else an equal share
  RankBy rank_by = RankBy::mapping;
  bool hardware_threads = false;  ///< each hardware thread counts as a core
  std::vector<int> cpus;          ///< CPUs for the ranks; empty: all that mpiexec may use
  std::string rankfile;           ///< file with the cores of each rank; empty: none
  GpuBinding gpu_bind;            ///< GPUs that each rank sees
  int gpus_per_task = 0;          ///< GPUs of each rank; 0: unspecified
  int input_rank = 0;             ///< rank that reads the standard input; negative: none
  bool merge_output = false;      ///< the ranks' standard error goes to standard output
  Labels labels = Labels::none;
  std::string label_pattern;            ///< of Labels::pattern
  bool timestamp_output = false;        ///< labels begin with the time
  std::string output_file, error_file;  ///< patterns of files for the ranks' output; empty: none
  bool copy_output = false;             ///< output in files is also forwarded
  bool report_bindings = false;
  bool do_not_launch = false;  ///< print the bindings, and start nothing
  bool oversubscribe = false;
  bool continue_on_failure = false;  ///< the other ranks go on when one has failed
  bool mps = false;                  ///< the ranks share GPUs through MPS
  double timeout = 0;                ///< seconds; 0: none
  bool help = false, version = false;
  int waits = -1;     ///< print what the job of this process waits for, and start nothing; 0: of any job
  bool json = false;  ///< of --waits
  bool gdb = false;   ///< each rank under gdb
  std::optional<std::vector<int>> xterm;  ///< ranks in windows of their own; empty: all
  int watch = 0;                          ///< sample the job of this process, and start nothing; 0: no
  double watch_interval = 1;              ///< seconds
  int watch_count = 0;                    ///< samples of watch; 0: until the job ends
  std::string run_info;                   ///< print the MPI of this program, and start nothing
  std::vector<std::string> warnings;      ///< printed; the job starts nevertheless
  bool no_notes = false;                  ///< no warnings of options of other MPIs without effect

  [[nodiscard]] int ranks() const;
};

/// Largest number of ranks of a job.
inline constexpr int kMaxRanks = 65536;

/// Parses argv[1...]. Errors name the option, the bad value and the valid values.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& arguments);
[[nodiscard]] std::string help_text();
/// Number of simulated hosts (WEFT_FAKE_HOSTS); 1: none.
[[nodiscard]] int fake_hosts();

}  // namespace weft::mpiexec
