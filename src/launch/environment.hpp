// SPDX-License-Identifier: BSD-3-Clause
// Environment: the variables launchers set, which of them promise a job of several processes, and which
// must not reach a process of another job.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// getenv, replaceable in tests.
using Lookup = std::function<const char*(const char*)>;

/// True for variables that tie a process to a launcher (PMI_FD, PMIX_RANK, OMPI_COMM_WORLD_RANK, ...): a
/// process of another job must not see them.
[[nodiscard]] bool ties_to_launcher(std::string_view variable);

/// Those of them that would make an MPI program believe in its parent's job; user code has no use for them.
[[nodiscard]] bool promises_job(std::string_view variable);

/// An error when a variable promises more than one process although no launcher can be reached.
[[nodiscard]] Status refuse_broken_promise(const Lookup& lookup);

/// A whole decimal number in [low, high], or nothing.
[[nodiscard]] std::optional<int> parse_int(std::string_view text, int low, int high);

/// The number in a variable: nothing when it is unset, an error that names it when it is no number in [low,
/// high].
[[nodiscard]] Result<std::optional<int>> read_int(const Lookup& lookup, const char* variable, int low,
                                                  int high);

}  // namespace weft::launch
