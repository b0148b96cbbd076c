// SPDX-License-Identifier: BSD-3-Clause
// Process mapping: which rank runs on which host, as PMI servers publish it under PMI_process_mapping.
// Format: "(vector,(first_host,hosts,ranks_per_host),...)", the list repeated until every rank has a host.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::launch::pmi {

inline constexpr const char* kMappingKey = "PMI_process_mapping";

/// Returns the host number of each of `size` ranks; nullopt if malformed.
[[nodiscard]] std::optional<std::vector<int>> parse_mapping(std::string_view text, int size);

/// Returns the mapping of a job on one host.
[[nodiscard]] std::string one_host_mapping(int size);

}  // namespace weft::launch::pmi
