// SPDX-License-Identifier: BSD-3-Clause
// mpiexec --run-info: the MPI library for which a program was built, and whether Weft has all of its symbols.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::mpiexec {

struct RunInfo {
  std::string text;
  bool runs = true;  ///< the program finds a library of Weft with all symbols of MPI that it imports
};
/// `path` has the result of find_on_path(). A script is described by its interpreter.
[[nodiscard]] Result<RunInfo> run_info(const std::string& path, const std::string& library_directory);

}  // namespace weft::mpiexec
