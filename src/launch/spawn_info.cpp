// SPDX-License-Identifier: BSD-3-Clause
#include "launch/spawn_info.hpp"

#include <algorithm>
#include <sstream>

namespace weft::launch {

const std::string* value_of(const Values& info, std::initializer_list<std::string_view> keys) {
  for (auto entry = info.rbegin(); entry != info.rend(); ++entry)
    if (std::find(keys.begin(), keys.end(), entry->first) != keys.end()) return &entry->second;
  return nullptr;
}

const std::string& directory_of(const Values& info, const std::string& otherwise) {
  const std::string* const named = value_of(info, {"wdir", "wd"});
  return named != nullptr ? *named : otherwise;
}

Result<Values> variables_of(const Values& info) {
  Values variables;
  const std::string* const lines = value_of(info, {"env"});
  std::istringstream text(lines != nullptr ? *lines : "");
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == 0 || equals == line.npos)
      return Error(Errc::spawn, "env: '" + line + "' is not of the form NAME=VALUE");
    variables.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

}  // namespace weft::launch
