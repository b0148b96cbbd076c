// SPDX-License-Identifier: BSD-3-Clause
// Info keys of MPI_Comm_spawn, as all launchers read them.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "launch/launch.hpp"

namespace weft::launch {

/// Returns the value of the last of the keys that is given; null: none is.
[[nodiscard]] const std::string* value_of(const Values& info, std::initializer_list<std::string_view> keys);

/// Returns the directory that `wdir`, or `wd`, names, else `otherwise`.
[[nodiscard]] const std::string& directory_of(const Values& info, const std::string& otherwise);

/// Returns the variables of the key `env`, lines NAME=VALUE. Errc::spawn: a line is not of this form.
[[nodiscard]] Result<Values> variables_of(const Values& info);

}  // namespace weft::launch
