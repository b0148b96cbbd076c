// SPDX-License-Identifier: BSD-3-Clause
// Files of options (-configfile, --app): each line is a program of the job, as between ":" on a command line.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

/// Separates the programs of a command line after split_programs(): no word of a command line contains a null
/// byte, so that a program in a file may have the argument ":".
inline const std::string kNextProgram{"\0:", 2};

/// Replaces each ":" by kNextProgram.
[[nodiscard]] std::vector<std::string> split_programs(std::vector<std::string> arguments);
/// Returns true for -configfile and --app, also with "=FILE".
[[nodiscard]] bool names_file(const std::string& option);
/// Replaces the option at arguments[i] and the name of its file by the words of the file; returns their
/// number.
[[nodiscard]] Result<size_t> insert_file(std::vector<std::string>& arguments, size_t i,
                                         std::vector<std::string>& warnings);

}  // namespace weft::mpiexec
