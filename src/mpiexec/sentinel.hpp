// SPDX-License-Identifier: BSD-3-Clause
// Sentinel: the process between mpiexec and the ranks. It starts and reaps them, is their subreaper, and ends
// everything below it when mpiexec says so or is gone, however mpiexec died. See README.md for the protocol.
#pragma once
#include <sys/types.h>

#include <vector>

#include "base/result.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/spawn.hpp"

namespace weft::mpiexec {

/// mpiexec to sentinel.
struct Command {
  enum Kind : int {
    signal,     ///< send signal `value` to the process group of every living rank; SIGTERM, SIGHUP: also wake
                ///< stopped ones
    finish,     ///< all ranks have ended: leave what they started a moment, then as terminate
    terminate,  ///< SIGTERM to everything, after a short grace SIGKILL
    kill        ///< SIGKILL at once
  };
  int kind;
  int value;
};

/// Sentinel to mpiexec.
struct Event {
  enum Kind : int {
    started,      ///< rank runs as pid `value`
    not_started,  ///< rank failed at StartFailure::Stage `value` with errno `detail`
    exited,       ///< rank ended with wait status `value`
    gone,         ///< nothing is left; the last event
    stuck         ///< `value` processes cannot be ended (e.g. pid `detail`); the last event
  };
  int kind;
  int rank;
  int value;
  int detail;
};

/// Seconds between SIGTERM and SIGKILL, and those a finished job's leftovers have for themselves.
inline constexpr double kGrace = 0.5;

struct SentinelHandle {
  pid_t pid;
  int control;  ///< socket of Commands and Events, one a packet
};

/// Forks the sentinel, which starts all ranks. The ranks' ends of the channels are closed in this process,
/// ours in the sentinel. Call before any thread is started.
[[nodiscard]] Result<SentinelHandle> start_sentinel(const std::vector<RankPlan>& plans,
                                                    std::vector<Channels>& channels,
                                                    const Inherited& inherited, char** argv);

/// Ends the job without its event loop: returns when the sentinel has ended everything and is gone. Closes
/// `control`.
void end_sentinel(SentinelHandle& sentinel);

}  // namespace weft::mpiexec
