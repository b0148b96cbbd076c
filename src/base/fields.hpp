// SPDX-License-Identifier: BSD-3-Clause
// Fields: the questions that tools ask, as words KEY=VALUE.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include "base/result.hpp"

namespace weft {

/// Calls accept(key, value) for each word of `text`. Errc::arg with `usage` for the first word that is not
/// KEY=VALUE or that accept() refuses by returning false.
template <class Accept>
[[nodiscard]] Status parse_fields(const std::string& text, const char* usage, Accept&& accept) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || !accept(word.substr(0, equals), word.substr(equals + 1)))
      return Error(Errc::arg, "'" + word + "' is not a valid field: use " + usage);
  }
  return {};
}

/// Returns the decimal number `text`; nullopt: it has other characters, or is not in [least, most].
[[nodiscard]] inline std::optional<uint64_t> parse_number(const std::string& text, uint64_t least,
                                                          uint64_t most) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
  return value < least || value > most ? std::nullopt : std::optional(value);
}

}  // namespace weft
