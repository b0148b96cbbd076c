// SPDX-License-Identifier: BSD-3-Clause
// Key: format of the keys of the exchange, equal for all launchers.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// PMI-1 allows 63 characters; the remaining ones hold the part number of a long value.
inline constexpr size_t kMaxKeyLength = 48;

/// Returns Errc::arg unless the key has 1 to kMaxKeyLength characters of [A-Za-z0-9._-].
[[nodiscard]] Status check_key(std::string_view key);

}  // namespace weft::launch
