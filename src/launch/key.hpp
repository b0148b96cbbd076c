// SPDX-License-Identifier: BSD-3-Clause
// Key: what a key of the exchange may look like, the same under every launcher.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// PMI-1 allows 63 characters; the rest holds the number of a part of a long value.
inline constexpr size_t kLongestKey = 48;

/// Errc::arg unless the key is 1 to kLongestKey of [A-Za-z0-9._-].
[[nodiscard]] Status check_key(std::string_view key);

}  // namespace weft::launch
