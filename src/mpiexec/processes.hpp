// SPDX-License-Identifier: BSD-3-Clause
// Processes: finds and signals all descendants of this process. The caller is a child subreaper (prctl(2)),
// so a process started by a rank remains a descendant after a double fork, setsid or the exit of its parent.
#pragma once
#include <sys/types.h>

#include <functional>
#include <vector>

namespace weft::mpiexec {

/// Returns all running descendants of `ancestor`, read from /proc.
[[nodiscard]] std::vector<pid_t> descendants(pid_t ancestor);

/// Returns true if the process has begun to exit (PF_EXITING): later signals do not change its wait status.
/// Returns false without /proc.
[[nodiscard]] bool is_exiting(pid_t pid);

/// Returns true if the process has a handler for the signal.
[[nodiscard]] bool handles(pid_t pid, int signal);

/// Sends a signal to every descendant of this process. SIGCONT follows SIGTERM, so that stopped processes
/// handle it. `groups`: process groups of the ranks; without /proc only their members are reached.
void signal_descendants(int signal, const std::vector<pid_t>& groups);

/// Sends SIGKILL repeatedly until no descendant is left (returns true) or `seconds` have passed (false).
/// `on_exit(pid, status)` is called for every child that is reaped; `groups`: as above.
[[nodiscard]] bool kill_descendants(
    double seconds, const std::vector<pid_t>& groups,
    const std::function<void(pid_t, int)>& on_exit = [](pid_t, int) {});

/// Changes the name of this process, so that `pkill mpiexec` does not match it. `argv`: of main().
void rename_process(char** argv, const char* name);

/// Returns the monotonic clock in seconds.
[[nodiscard]] double now();

/// Seconds after which processes that survive SIGKILL are reported as unkillable.
inline constexpr double kKillTimeoutSeconds = 5;

/// Pause in microseconds of an event loop after poll() has failed.
inline constexpr unsigned kPollRetryIntervalUs = 1000;

}  // namespace weft::mpiexec
