// SPDX-License-Identifier: BSD-3-Clause
#include "launch/key.hpp"

#include <string>

namespace weft::launch {

Status check_key(std::string_view key) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (!key.empty() && key.size() <= kMaxKeyLength && key.find_first_not_of(kAllowed) == key.npos) return {};
  return Error(Errc::arg, "bad key '" + std::string(key) + "' (1 to " + std::to_string(kMaxKeyLength) +
                              " characters, each a letter, a digit or one of . _ -)");
}

}  // namespace weft::launch
