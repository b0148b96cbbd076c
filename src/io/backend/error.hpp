// SPDX-License-Identifier: BSD-3-Clause
// Error classes of files that Errc lacks (MPI 5.0 section 14.7), and errors of system calls.
#pragma once
#include <string>
#include <utility>

#include "base/result.hpp"

namespace weft::io {

/// The values are those of MPI_ERR_* in the ABI.
enum class ErrorClass : int {
  access = 20,
  amode = 21,
  bad_file = 23,
  conversion = 25,
  dup_datarep = 27,
  file_exists = 28,
  file_in_use = 29,
  file = 30,
  io = 35,
  no_mem = 39,
  not_same = 40,
  no_space = 41,
  no_such_file = 42,
  quota = 44,
  read_only = 45,
  unsupported_datarep = 54,
  unsupported_operation = 55
};

[[nodiscard]] inline Error error(ErrorClass code, std::string message) {
  return {Errc::file, std::move(message), static_cast<int>(code)};
}

/// The error of a system call: "cannot <operation> <path>: <text of errno>". `number`: errno.
[[nodiscard]] Error system_error(const std::string& operation, const std::string& path, int number);

}  // namespace weft::io
