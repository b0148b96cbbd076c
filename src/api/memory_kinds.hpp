// SPDX-License-Identifier: BSD-3-Clause
// Memory allocation kinds: which memory this process can hand to MPI (MPI 5.0 section 12.4.3, and the kinds
// for CUDA of the Forum's side document).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weft::api {

/// The value of mpi_memory_alloc_kinds for a request; without one, for what start-up was asked for, else all.
/// system and mpi are always there; cuda when its driver was found.
[[nodiscard]] std::string memory_kinds(std::optional<std::string_view> requested);
/// Whether a list names kinds of memory_kinds() only.
[[nodiscard]] bool are_memory_kinds(std::string_view list);
/// What start-up was asked for; empty: nothing.
[[nodiscard]] const std::string& memory_kinds_at_start();

}  // namespace weft::api
