// SPDX-License-Identifier: BSD-3-Clause
// Name service of one host: the mpiexec of the publishing job listens at a socket whose abstract name is
// derived from the published name, so that the jobs of one user find it without configuration. The name
// disappears with that mpiexec.
#pragma once
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// Longest published name in bytes.
inline constexpr size_t kMaxServiceName = 1024;

/// The abstract name of the socket for a published name of this user.
[[nodiscard]] std::string name_socket(std::string_view name);

/// The value that any mpiexec of this user on this host has published under `name`. Errc::name: nothing.
[[nodiscard]] Result<std::string> lookup_on_host(std::string_view name);

}  // namespace weft::launch
