// SPDX-License-Identifier: BSD-3-Clause
// Folder in which `weft hosts --setup` installs a launcher over ssh and a UCX, under the same path on each
// host.
#pragma once
#include <string>

#include "launch/environment.hpp"

namespace weft::launch {

/// Returns $XDG_DATA_HOME/weft/launcher, else ~/.local/share/weft/launcher; empty without a home folder.
/// cli/weft_mpi/hosts/record.py has the same rule.
[[nodiscard]] std::string launcher_folder(const Lookup& lookup);

}  // namespace weft::launch
