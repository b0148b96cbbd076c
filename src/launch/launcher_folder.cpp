// SPDX-License-Identifier: BSD-3-Clause
#include "launch/launcher_folder.hpp"

namespace weft::launch {

std::string launcher_folder(const Lookup& lookup) {
  const auto text_of = [&](const char* name) {
    const char* text = lookup(name);
    return std::string(text != nullptr ? text : "");
  };
  const std::string data = text_of("XDG_DATA_HOME"), home = text_of("HOME");
  if (data.starts_with('/')) return data + "/weft/launcher";
  return home.empty() ? "" : home + "/.local/share/weft/launcher";
}

}  // namespace weft::launch
