// SPDX-License-Identifier: BSD-3-Clause
// mpiexec --guard: stands between another launcher and a rank that it starts on its host. The rank and all
// its descendants end when the rank has ended, and when the launcher's process on this host ends, also by
// SIGKILL.
#pragma once
#include <string>
#include <vector>

namespace weft::mpiexec {

/// Option of mpiexec with the words MODE PROGRAM ARGUMENTS....
inline constexpr const char* kGuard = "--guard";
/// Modes: a signal that kills the rank ends the job, or the other ranks go on.
inline constexpr const char* kGuardEnds = "end";
inline constexpr const char* kGuardContinues = "continue";

/// Runs a rank under a supervisor of its own and forwards signals to it. Returns the exit code of the rank,
/// 128 + N for signal N. `given`: the words of the option; `argv`: of main(). Precondition: no thread has
/// been started.
[[nodiscard]] int guard(const std::vector<std::string>& given, char** argv, char** environment);

}  // namespace weft::mpiexec
