// SPDX-License-Identifier: BSD-3-Clause
// Hosts: the built-in launcher starts processes on this host only; a host list is accepted when it names
// nothing else.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::mpiexec {

/// This host's name, as in messages.
[[nodiscard]] std::string host_name();
/// "localhost,myname:4"; `option` is named in the error.
[[nodiscard]] Status check_host_list(const std::string& option, const std::string& list);
/// One host a line; "#" starts a comment; words after the host (slots=4) are ignored.
[[nodiscard]] Status check_host_file(const std::string& option, const std::string& path);

}  // namespace weft::mpiexec
