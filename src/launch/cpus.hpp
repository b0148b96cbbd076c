// SPDX-License-Identifier: BSD-3-Clause
// CPUs: affinity of this process, and CPU lists in the format of sysfs.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace weft::launch {

inline constexpr int kMaxCpus = 1 << 20;

/// Returns the CPUs on which a process may run, ascending; none if it has ended. 0: this process.
[[nodiscard]] std::vector<int> allowed_cpus(pid_t process = 0);

/// Parses a sysfs list such as "0-2,5"; nullopt if malformed.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(const std::string& text);
[[nodiscard]] std::string format_cpu_list(std::vector<int> cpus);

/// Returns the first line of a file; empty if the file does not exist.
[[nodiscard]] std::string first_line(const std::string& path);

}  // namespace weft::launch
