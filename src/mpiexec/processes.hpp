// SPDX-License-Identifier: BSD-3-Clause
// Processes: finds and signals everything below this process. As it is a child subreaper (prctl(2)), a
// process started by a rank stays below it whatever it does: fork twice, call setsid, outlive its parent.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::mpiexec {

/// All living descendants of `ancestor`, from /proc.
[[nodiscard]] std::vector<pid_t> descendants(pid_t ancestor);

/// Sends a signal to every descendant of this process, except `spared` (0: none). SIGTERM wakes the stopped
/// ones.
void signal_descendants(int signal, pid_t spared = 0);

/// Ends all descendants: SIGKILL again and again until none is left, or `seconds` have passed.
/// Returns those left.
[[nodiscard]] std::vector<pid_t> kill_descendants(double seconds);

/// Seconds of a clock that never jumps.
[[nodiscard]] double now();

/// How long a loop pauses when poll() fails, before it tries without.
inline constexpr unsigned kPollPauseMicroseconds = 1000;

}  // namespace weft::mpiexec
