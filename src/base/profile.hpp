// SPDX-License-Identifier: BSD-3-Clause
// Profile: settings that `weft tune` has measured to be better on a machine. A file has a section for each
// machine, `[2 x NVIDIA H200; Intel Xeon; 64 cores]`, and in it lines `p2p.eager_max = 32768`.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weft::config {

using Values = std::vector<std::pair<std::string, std::string>>;

/// What tells machines apart that may need other settings: GPUs, processor, cores. Without the driver's help.
[[nodiscard]] std::string machine_name();

/// The values in the section of `machine`, none where it has no section. An unreadable file or a line that is
/// none of the above is an error that names it.
[[nodiscard]] Result<Values> read_profile(const std::string& path, const std::string& machine);

/// Where the profile is looked for when no setting names one: empty where there is none.
[[nodiscard]] std::string default_profile();

}  // namespace weft::config
