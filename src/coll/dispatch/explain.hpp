// SPDX-License-Identifier: BSD-3-Clause
// Explains the path, algorithm and protocol that a collective among the ranks of one host would use. Needs no
// communicator.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::coll {

/// Returns JSON for a query such as "what=allreduce ranks=8 kind=cuda bytes=67108864": a row for each power
/// of two up to `bytes` of a vector (allreduce, reduce, bcast, scan, exscan) or block. kind: host, or cuda
/// with one GPU per rank.
[[nodiscard]] Result<std::string> explain(const std::string& query);

}  // namespace weft::coll
