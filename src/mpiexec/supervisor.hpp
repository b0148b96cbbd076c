// SPDX-License-Identifier: BSD-3-Clause
// Supervisor: the process between mpiexec and the ranks. Starts and reaps the ranks, is their subreaper, and
// kills all its descendants when mpiexec requests it or has exited. README.md describes the protocol.
#pragma once
#include <sys/types.h>

#include <vector>

#include "base/result.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/pmi_listener.hpp"
#include "mpiexec/spawn.hpp"

namespace weft::mpiexec {

/// Message from mpiexec to the supervisor.
struct Command {
  enum Kind : int {
    signal,     ///< send signal `value` to the process group of every running rank; SIGCONT
                ///< follows SIGTERM and SIGHUP
    finish,     ///< all ranks exited: wait kGracePeriodSeconds for their children, then as terminate
    terminate,  ///< SIGTERM to all descendants, SIGKILL after kGracePeriodSeconds
    kill,       ///< SIGKILL to all descendants at once
    start,      ///< start process `value`: with kStartDescriptors descriptors
    end         ///< SIGKILL to the process group of process `value`
  };
  int kind;
  int value;
};

/// Descriptors of Command::start: the plan (plan_file.hpp), the process's ends of its output, error and PMI
/// channels.
inline constexpr size_t kStartDescriptors = 4;

/// Message from the supervisor to mpiexec. A process is a rank of the first job, or has the number of its
/// Command::start.
struct Event {
  enum Kind : int {
    started,      ///< process runs as pid `value`
    executed,     ///< process of a Command::start executes its program
    not_started,  ///< process failed at StartFailure::Stage `value` with errno `detail`
    exited,       ///< process exited with wait status `value`; `detail` 1: not a consequence of signals that
                  ///< the supervisor sent, 0: perhaps a consequence
    all_exited,   ///< no descendant is left; the last event
    unkillable    ///< `value` processes cannot be killed (e.g. pid `detail`; 0: unknown); the last event
  };
  int kind;
  int process;
  int value;
  int detail;
};

/// Seconds between SIGTERM and SIGKILL, and between the last rank's exit and SIGTERM to its children.
inline constexpr double kGracePeriodSeconds = 0.5;

struct SupervisorHandle {
  pid_t pid;
  int control;  ///< SOCK_SEQPACKET socket: one Command or Event per packet
};

/// Forks the supervisor, which starts all ranks. Closes the ranks' ends of the channels in this process,
/// mpiexec's ends and `listener`, whose address the ranks get, in the supervisor. Precondition: no thread has
/// been started.
[[nodiscard]] Result<SupervisorHandle> start_supervisor(const std::vector<RankPlan>& plans,
                                                        std::vector<Channels>& channels,
                                                        PmiListener& listener,
                                                        const InheritedState& inherited, char** argv);

/// Terminates the job without the event loop: closes `control` and returns after the supervisor has killed
/// all processes and exited.
void stop_supervisor(SupervisorHandle& supervisor);

}  // namespace weft::mpiexec
