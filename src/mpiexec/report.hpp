// SPDX-License-Identifier: BSD-3-Clause
// Report: what mpiexec says about a job that failed: which rank, how, and what may help.
#pragma once
#include <sys/types.h>

#include <string>

#include "mpiexec/plan.hpp"
#include "mpiexec/sentinel.hpp"

namespace weft::mpiexec {

/// How a job ended badly.
struct Failure {
  int exit_code = 0;
  std::string text;  ///< empty: nothing to say (the user ended it)
};

/// "rank 3 (pid 4711 on node1)"
[[nodiscard]] std::string rank_text(int rank, pid_t pid);
/// A rank that ended with a wait status that is not success.
[[nodiscard]] Failure describe_exit(int rank, pid_t pid, int status);
[[nodiscard]] Failure describe_abort(int rank, pid_t pid, int code, const std::string& message);
[[nodiscard]] Failure describe_start_failure(const Event& event, const RankPlan& plan);
/// "cannot WHAT (reason)": mpiexec itself lacks a resource. `error`: errno.
[[nodiscard]] Error cannot(const std::string& what, int error);
/// Prints "mpiexec: TEXT" to standard error.
void say(const std::string& text);

}  // namespace weft::mpiexec
