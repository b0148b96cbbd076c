// SPDX-License-Identifier: BSD-3-Clause
// Spawn: turns a RankPlan into a process: its own process group, bound, with exactly the descriptors 0, 1, 2
// and kPmiFd, and with the signal dispositions mpiexec was started with.
#pragma once
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

/// What mpiexec changes of itself and must give back to its children.
class Inherited {
 public:
  /// Remembers the present state, then blocks the signals mpiexec handles, ignores SIGPIPE, SIGXFSZ,
  /// SIGTTIN and SIGTTOU, and raises the limit on descriptors.
  static Inherited take_over();
  /// In a child: as it was before take_over().
  void restore() const;
  /// True when whoever started mpiexec made it ignore this signal (nohup, background of a script).
  [[nodiscard]] bool ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }

 private:
  sigset_t mask_{}, ignored_{};
  rlimit descriptors_{};
};

/// What failed in a child before it became the program.
struct StartFailure {
  enum Stage : int { directory, binding, program };
  int rank;
  int stage;
  int error;  ///< errno
};

/// Forks and executes. On failure in the child, a StartFailure is written to `failure_fd` and the child exits
/// with 127. Returns the pid, or -1 with errno.
[[nodiscard]] pid_t spawn(int rank, const RankPlan& plan, const Channels& channels,
                          const Inherited& inherited, int failure_fd);

/// Closes everything but 0, 1 and 2 on exec, and sees that 0 to kPmiFd are not free for other uses: a closed
/// one reads as empty and cannot be written.
void secure_descriptors();

}  // namespace weft::mpiexec
