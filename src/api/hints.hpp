// SPDX-License-Identifier: BSD-3-Clause
// Hints that a communicator understands (MPI 5.0 section 7.4.4); others are ignored, as MPI asks.
#pragma once
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/info.hpp"

namespace weft::api {

/// The hints in use and what Weft says of its own, as a new info object; null: no room.
[[nodiscard]] core::Info* hints_of(const core::Communicator& comm);
/// Takes over the known hints of `info`, which may be null. Errc::info_value: one has a bad value.
[[nodiscard]] Status apply_hints(core::Communicator& comm, const core::Info* info);

}  // namespace weft::api
