// SPDX-License-Identifier: BSD-3-Clause
// Options of the mpiexec of Open MPI, MPICH (Hydra), Intel MPI and MVAPICH, and their MCA parameters: each is
// translated to options of Weft, accepted without effect, or refused. The table in other_options.cpp is the
// source of the one in docs/migration.md.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

/// Treatment of one option, or of one value of it.
struct Rule {
  const char* names;  ///< without dashes, separated by blanks
  int values;         ///< number of words that follow
  const char* when;   ///< the last value to which the rule applies; nullptr: all
  const char* own;    ///< options of Weft, %1 and %2: the values; nullptr: refused; "": no effect
  const char* text;   ///< refused: how to say it here; no effect: why it is not needed
};

struct Translation {
  std::vector<std::string> own;
  std::string note;  ///< why the option has no effect; empty: it has one
};

/// Returns the number of values of an option of another MPI; -1 if it is unknown.
[[nodiscard]] int values_of_other_option(const std::string& name);
/// Precondition: `values` has values_of_other_option(name) words. Errc::unsupported: refused.
[[nodiscard]] Result<Translation> translate_other_option(const std::string& name,
                                                         const std::vector<std::string>& values);

/// Options of Weft for the variables of other MPIs in the environment, such as OMPI_MCA_pml.
[[nodiscard]] std::vector<std::string> options_from_environment(char** environment);
/// Returns true for -configfile and --app.
[[nodiscard]] bool names_file(const std::string& option);
/// Replaces the option at arguments[i] and the name of its file by the options in the file, whose lines are
/// programs of the job.
[[nodiscard]] Status insert_file(std::vector<std::string>& arguments, size_t i);
/// The command line of MVAPICH's mpirun_rsh (hosts and NAME=VALUE before the program) as mpiexec's.
[[nodiscard]] Result<std::vector<std::string>> arguments_of_mpirun_rsh(
    const std::vector<std::string>& arguments);
/// The table as lines "option | treatment | meaning".
[[nodiscard]] std::string other_options_text();

}  // namespace weft::mpiexec
