// SPDX-License-Identifier: BSD-3-Clause
// Secure execution (ld.so(8)): the program has privileges that its user lacks: set-user-ID, set-group-ID,
// file capabilities. Its user chooses the environment and the home folder, so neither may name code that it
// loads.
#pragma once
#include <string>

namespace weft::secure {

/// True if the kernel marked this process for secure execution (AT_SECURE). Constant for the process.
[[nodiscard]] bool execution();

/// dlopen(). In secure execution only a library that the program has loaded already: UCX, libfabric,
/// PMIx and the CUDA driver read paths of further libraries from the environment. Null: open_error() says
/// why.
[[nodiscard]] void* open_library(const std::string& path, int flags);

/// Why the last open_library() of this thread returned null.
[[nodiscard]] std::string open_error();

}  // namespace weft::secure
