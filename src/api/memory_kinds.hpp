// SPDX-License-Identifier: BSD-3-Clause
// Memory allocation kinds: memory that this process can pass to MPI (MPI 5.0 section 12.4.3 and the CUDA
// kinds of the Forum's side document).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/info.hpp"
#include "device/allocate.hpp"

namespace weft::api {

/// Value of mpi_memory_alloc_kinds for `requested`, else for the kinds requested at start-up, else all kinds.
/// system and mpi are always supported, cuda if the driver is available.
[[nodiscard]] std::string memory_kinds(std::optional<std::string_view> requested);
/// Returns true if a comma-separated list contains only supported kinds.
[[nodiscard]] bool are_memory_kinds(std::string_view list);
/// Kinds that MPI allocates for a list, in order; a kind without restrictors of CUDA is GPU memory, unknown
/// kinds are left out.
[[nodiscard]] device::AllocationKinds allocation_kinds(std::string_view list);
/// The same for the key mpi_memory_alloc_kinds of an info object, if it has one.
[[nodiscard]] std::optional<device::AllocationKinds> requested_kinds(const core::Info* info);
/// Kinds requested at start-up; empty: none.
[[nodiscard]] const std::string& startup_memory_kinds();

}  // namespace weft::api
