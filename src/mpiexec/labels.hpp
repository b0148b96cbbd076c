// SPDX-License-Identifier: BSD-3-Clause
// Labels: the text before each line of output, in the form of the launcher whose option asked for it.
#pragma once
#include <string>

#include "base/result.hpp"
#include "mpiexec/options.hpp"

namespace weft::mpiexec {

/// Returns the pattern of the labels that the options ask for; empty: none. Its fields: %r rank, %h host, %j
/// number of the job from 1, %J name of the job, %s stdout or stderr, %e "(err)" on standard error only, %t
/// time, %c time as by ctime(), %g process group from 0, %p proxy, %%.
[[nodiscard]] std::string label_pattern(const Options& options);
/// Sets the labels to a pattern as of Hydra's -prepend-pattern: %r, %h, %g (process group), %p (proxy), %t
/// and %%.
[[nodiscard]] Status set_label_pattern(Options& options, const std::string& name, const std::string& value);

/// The process and the stream that a label names.
struct LabelledStream {
  int rank;
  int job;  ///< from 1
  bool is_error;
};
/// `job_name`: for %J. The time is the current one.
[[nodiscard]] std::string label_text(const std::string& pattern, const LabelledStream& stream,
                                     const std::string& job_name);

}  // namespace weft::mpiexec
