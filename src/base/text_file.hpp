// SPDX-License-Identifier: BSD-3-Clause
// Text files of users (profiles, host files, files of options and of info values), and of the kernel and
// drivers.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft {

/// Largest text file in bytes; a device or a pipe without end is an error, too.
inline constexpr size_t kMaxTextFileBytes = size_t{16} << 20;

/// Returns the contents of a file. Error: why it cannot be read, beginning with the path.
[[nodiscard]] Result<std::string> read_text_file(const std::string& path, Errc code);

/// Returns the value of a line "NAME: value" of a file of the kernel or of a driver, without the blanks
/// around it; empty if there is none.
[[nodiscard]] std::string value_in_file(const std::string& path, const std::string& name);

}  // namespace weft
