// SPDX-License-Identifier: BSD-3-Clause
// Spawn: starts a process from a RankPlan: session, CPU binding, only descriptors 0, 1, 2 and its PMI socket,
// and the signal dispositions with which mpiexec was started.
#pragma once
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

#include "launch/pmi/address.hpp"
#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

/// Signal and limit state that mpiexec changes for itself and restores in its children.
class InheritedState {
 public:
  /// Saves the current state, then blocks the signals that mpiexec handles, ignores SIGPIPE, SIGXFSZ, SIGTTIN
  /// and SIGTTOU, and raises the descriptor limit.
  static InheritedState save_and_replace();
  /// Restores the saved state. Call in a child process.
  void restore() const;
  /// Returns the number of descriptors that a child process may have.
  [[nodiscard]] unsigned long descriptors() const { return descriptors_.rlim_cur; }
  /// Returns true if mpiexec was started with this signal ignored (nohup, background job of a script).
  [[nodiscard]] bool ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }

 private:
  sigset_t mask_{}, ignored_{};
  rlimit descriptors_{};
};

/// Step of a child process that failed before exec.
struct StartFailure {
  enum Stage : int { directory, binding, program };
  int process;
  int stage;
  int error;  ///< errno
};

/// Session of a process, by which the kernel's autogroups share a busy core. `own`: an equal share with every
/// process of other sessions, but sched_yield() does not run the other ranks. `supervisor`: one share for all
/// ranks, which hand over a core to each other by sched_yield(). Each process leads a process group.
enum class Session : uint8_t { own, supervisor };

/// Forks and executes, with the variables by which the process finds its PMI socket: PMI_FD, and `job`, the
/// address of mpiexec's socket. On failure in the child, a StartFailure is written to `failure_fd` and the
/// child exits with 127. Returns the pid, or -1 with errno.
[[nodiscard]] pid_t spawn(int process, const RankPlan& plan, Session session, const Channels& channels,
                          const InheritedState& inherited, const launch::pmi::Address& job, int failure_fd);

/// Opens /dev/null read-only on unused descriptors from 0 to 2, so that no later open() returns them, and
/// sets close-on-exec on all other descriptors.
void prepare_descriptors();

}  // namespace weft::mpiexec
