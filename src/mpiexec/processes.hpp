// SPDX-License-Identifier: BSD-3-Clause
// Processes: finds and signals all descendants of this process. The caller is a child subreaper (prctl(2)),
// so a process started by a rank remains a descendant after a double fork, setsid or the exit of its parent.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::mpiexec {

/// Returns all running descendants of `ancestor`, read from /proc.
[[nodiscard]] std::vector<pid_t> descendants(pid_t ancestor);

/// Sends a signal to every descendant of this process except `excluded` (0: none). SIGCONT follows SIGTERM,
/// so that stopped processes handle it.
void signal_descendants(int signal, pid_t excluded = 0);

/// Sends SIGKILL repeatedly until no descendant is left or `seconds` have passed. Returns the remaining
/// processes.
[[nodiscard]] std::vector<pid_t> kill_descendants(double seconds);

/// Returns the monotonic clock in seconds.
[[nodiscard]] double now();

/// Pause in microseconds of an event loop after poll() has failed.
inline constexpr unsigned kPollRetryIntervalUs = 1000;

}  // namespace weft::mpiexec
