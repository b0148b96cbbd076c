// SPDX-License-Identifier: BSD-3-Clause
// Explains how one-sided operations between two processes of this host would be executed, for tools.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::rma {

/// Returns JSON for a query such as "what=put kind=cuda to=cuda window=create bytes=8": a row for each size.
/// Conditions that are known only at run time are ignored: failed mappings, permissions.
[[nodiscard]] Result<std::string> explain(const std::string& query);

}  // namespace weft::rma
