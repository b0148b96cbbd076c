// SPDX-License-Identifier: BSD-3-Clause
// Explains how data would reach a file. Opens the file, or its folder, and changes nothing; needs no
// communicator.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::io {

/// Returns JSON for a query such as "kind=cuda path=/scratch/out": the file system and a row for each form of
/// access. kind: host or cuda. The path is the rest of the query.
[[nodiscard]] Result<std::string> explain(const std::string& query);

}  // namespace weft::io
