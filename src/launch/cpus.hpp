// SPDX-License-Identifier: BSD-3-Clause
// CPUs: which ones this process may use, and the lists of them that sysfs writes.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace weft::launch {

inline constexpr int kMostCpus = 1 << 20;

/// CPUs this process may run on, ascending.
[[nodiscard]] std::vector<int> allowed_cpus();

/// "0-2,5" as sysfs writes it. Nothing: not such a list.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(const std::string& text);
[[nodiscard]] std::string format_cpu_list(std::vector<int> cpus);

/// The first line of a small file; empty when it is not there.
[[nodiscard]] std::string first_line(const std::string& path);

}  // namespace weft::launch
