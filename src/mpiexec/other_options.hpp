// SPDX-License-Identifier: BSD-3-Clause
// Options of the mpiexec of Open MPI, MPICH (Hydra), Intel MPI and MVAPICH, and their MCA parameters: each is
// translated to options of Weft, accepted without effect, or refused. The table in other_option_rules.cpp is
// the source of the one in docs/migration.md.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

struct Translation {
  std::vector<std::string> own;
  std::vector<std::string> notes;  ///< why the option has no effect
};

/// Returns the number of words after an option of another MPI; -1 if it is unknown.
[[nodiscard]] int values_of_other_option(const std::string& name);
/// Returns true for an option that has a value only as "--name=value".
[[nodiscard]] bool is_joined_option(const std::string& name);
/// Returns true for an option with the values NAME VALUE, or one value NAME=VALUE.
[[nodiscard]] bool sets_variable(const std::string& name);
/// Precondition: `values` has values_of_other_option(name) words. Errc::unsupported: refused.
[[nodiscard]] Result<Translation> translate_other_option(const std::string& name,
                                                         const std::vector<std::string>& values);

/// Options of Weft for the variables of other MPIs in the environment, such as OMPI_MCA_pml.
[[nodiscard]] std::vector<std::string> options_from_environment(char** environment);
/// The command line of MVAPICH's mpirun_rsh (hosts and NAME=VALUE before the program) as mpiexec's.
[[nodiscard]] Result<std::vector<std::string>> arguments_of_mpirun_rsh(
    const std::vector<std::string>& arguments);
/// The table as lines "option | treatment | meaning".
[[nodiscard]] std::string other_options_text();

}  // namespace weft::mpiexec
