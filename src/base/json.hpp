// SPDX-License-Identifier: BSD-3-Clause
// JSON text for tools.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace weft {

/// Returns `text` as a JSON string, with its quotes.
[[nodiscard]] inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\')
      out.append("\\").push_back(c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out.append(code, static_cast<size_t>(std::snprintf(code, sizeof code, "\\u%04x", c)));
    else
      out.push_back(c);
  }
  return out + "\"";
}

}  // namespace weft
