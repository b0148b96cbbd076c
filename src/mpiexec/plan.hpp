// SPDX-License-Identifier: BSD-3-Clause
// Plan: arguments, environment, CPUs and channels of each rank, computed before any process starts.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/binding.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

struct RankPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< "NAME=VALUE"
  std::string directory;                 ///< empty: the current directory
  std::vector<int> cpus;                 ///< empty: inherited affinity
  int program = 0;                       ///< index in Options::programs
  std::vector<size_t> gpus{};            ///< visible GPUs of mpiexec that were given to the rank
  size_t visible_gpus = 0;               ///< GPUs that the rank sees; 0: as many as mpiexec
  std::string other_mpi{};               ///< library of another MPI with which the program is linked
};

/// Descriptors of one rank: mpiexec's ends, and the rank's ends for 0, 1, 2 and its PMI socket. All close on
/// exec. No PMI socket (-1): the ranks of another launcher may have a connection of another kind.
struct Channels {
  int input = -1, output = -1, error = -1, pmi = -1;                          ///< mpiexec's ends
  int child_input = -1, child_output = -1, child_error = -1, child_pmi = -1;  ///< the rank's ends
};

/// Descriptors 0, 1 and 2.
inline constexpr int kStandardDescriptors = 3;

/// Returns the directory of Weft's library relative to this executable (prefix/bin/mpiexec -> prefix/lib).
/// Empty if the library is not there, as in a build folder; the dynamic linker's search path then applies.
[[nodiscard]] std::string library_directory();

/// An error if no search path can contain the directory.
[[nodiscard]] Status check_folder(const std::string& library_directory);

/// Returns the executable that exec finds on a search path; `name` itself if none.
[[nodiscard]] std::string find_on_path(const std::string& name, const std::string& path);

/// Makes python3 run the program, by weft_mpi.run, if it is one of Python (--python).
void prepend_python(Program& program, const std::string& library_directory);

/// Adds the variables with which the dynamic linker loads Weft's library first.
void prepend_library_path(Program& program, const std::string& library_directory);

/// Returns one plan per rank. `environment`: mpiexec's own environment.
[[nodiscard]] std::vector<RankPlan> plan_ranks(const Options& options, const std::vector<Binding>& bindings,
                                               const std::string& job_id,
                                               const std::string& library_directory, char** environment);

/// Starts the programs of the plans under gdb or in windows (--gdb, --xterm). An error if a tool is missing.
[[nodiscard]] Status add_debugger(std::vector<RankPlan>& plans, const Options& options);

/// Opens the channels of every rank. `input_rank` (negative: none) inherits mpiexec's standard input; other
/// ranks get /dev/null.
[[nodiscard]] Result<std::vector<Channels>> open_channels(int ranks, int input_rank);
/// The same for a job that starts later: the supervisor gives its ranks /dev/null.
[[nodiscard]] Result<std::vector<Channels>> open_later_channels(int ranks);
/// Closes the rank's ends, without its standard input.
void close_child_ends(Channels& channels);

/// A name for a job, unique among the running jobs of a host; at most 64 bytes.
[[nodiscard]] std::string unique_job_id();

}  // namespace weft::mpiexec
