// SPDX-License-Identifier: BSD-3-Clause
// Info hints of communicators (MPI 5.0 section 7.4.4); unknown hints are ignored, as MPI requires.
#pragma once
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/info.hpp"

namespace weft::api {

/// New info object with the hints in use and the keys that Weft adds; null if no info object is available.
[[nodiscard]] core::Info* hints_of(const core::Communicator& comm);
/// Applies the known hints of `info`, which may be null. Errc::info_value: a hint has an invalid value.
[[nodiscard]] Status apply_hints(core::Communicator& comm, const core::Info* info);

}  // namespace weft::api
