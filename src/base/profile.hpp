// SPDX-License-Identifier: BSD-3-Clause
// Profile: settings that `weft tune` measured to be faster on a machine. The file has one section per
// machine, e.g. `[2 x NVIDIA H200; Intel Xeon; 64 cores]`, with lines such as `p2p.eager_max = 32768`.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weft::config {

using Values = std::vector<std::pair<std::string, std::string>>;

/// Section name of this machine: GPUs, processor model, cores. Read from /proc, without the CUDA driver.
[[nodiscard]] std::string machine_name();

/// Returns the values of the section `machine`; empty if there is no such section. An unreadable file or a
/// malformed line is an error that names the file and line.
[[nodiscard]] Result<Values> read_profile(const std::string& path, const std::string& machine);

/// Path of the default profile; empty if the file does not exist.
[[nodiscard]] std::string default_profile();

}  // namespace weft::config
