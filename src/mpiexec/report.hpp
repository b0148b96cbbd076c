// SPDX-License-Identifier: BSD-3-Clause
// Report: error texts for a failed job: the rank, the cause and a hint.
#pragma once
#include <sys/types.h>

#include <string>

#include "mpiexec/plan.hpp"
#include "mpiexec/supervisor.hpp"

namespace weft::mpiexec {

/// Exit code and error text of a failed job.
struct Failure {
  int exit_code = 0;
  std::string text;                 ///< empty: nothing to print (the user ended the job)
  bool may_be_consequence = false;  ///< of the end of another rank by a signal
};

/// Returns "rank 3 (pid 4711 on node1)".
[[nodiscard]] std::string rank_text(int rank, pid_t pid);
/// Describes a rank that exited with the nonzero wait status `status`. `rank`: rank_text() of it.
/// `directory`: in which it was started; empty: the current one.
[[nodiscard]] Failure describe_exit(const std::string& rank, pid_t pid, int status,
                                    const std::string& directory);
[[nodiscard]] Failure describe_abort(const std::string& rank, int code, const std::string& message);
/// Returns a hint for a failed rank whose local rank is the number of no GPU that it sees; else an empty
/// text.
[[nodiscard]] std::string gpu_hint(const RankPlan& plan, size_t local_rank);
[[nodiscard]] Failure describe_start_failure(const Event& event, int rank, const RankPlan& plan);
/// Returns the error "cannot ACTION (reason)" of a failed system call of mpiexec. `error`: errno.
[[nodiscard]] Error system_call_error(const std::string& action, int error);
/// Prints "mpiexec: TEXT" to standard error.
void print_message(const std::string& text);

}  // namespace weft::mpiexec
