// SPDX-License-Identifier: BSD-3-Clause
// Environment: variables set by launchers. Some imply a job of several processes; these must not be inherited
// by processes of another job.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// getenv, replaceable in tests.
using Lookup = std::function<const char*(const char*)>;

/// Returns true for variables that belong to one job (PMI_FD, PMIX_RANK, OMPI_COMM_WORLD_RANK, ...): mpiexec
/// does not pass them to a new job.
[[nodiscard]] bool is_launcher_variable(std::string_view variable);

/// Returns true for launcher variables by which an MPI program would join its parent's job; user code does
/// not need them.
[[nodiscard]] bool implies_job(std::string_view variable);

/// Returns an error if a variable implies more than one process; called when no launcher is available.
[[nodiscard]] Status check_launcher_reachable(const Lookup& lookup);

/// Parses a decimal integer in [low, high]; nullopt otherwise.
[[nodiscard]] std::optional<int> parse_int(std::string_view text, int low, int high);

/// Reads an integer variable: nullopt if unset, an error naming the variable if it is no integer in [low,
/// high].
[[nodiscard]] Result<std::optional<int>> read_int(const Lookup& lookup, const char* variable, int low,
                                                  int high);

}  // namespace weft::launch
