// SPDX-License-Identifier: BSD-3-Clause
// Output files: the names of the files to which the ranks' output goes.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::mpiexec {

/// Returns false if a pattern has other fields than %r (rank), %0r (rank with zeros in front), %j (number of
/// the job, from 1), %h (host) and %%.
[[nodiscard]] bool valid_output_pattern(const std::string& pattern);
/// Precondition: the pattern is valid. `ranks`: of the job, for the number of zeros.
[[nodiscard]] std::string output_file_name(const std::string& pattern, int rank, int ranks, int job);
/// Creates the file, and folders that are missing; returns its descriptor.
[[nodiscard]] Result<int> create_output_file(const std::string& path);

}  // namespace weft::mpiexec
