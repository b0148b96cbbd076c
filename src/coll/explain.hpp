// SPDX-License-Identifier: BSD-3-Clause
// What would become of a collective among the ranks of one host: the choices that calls make, made for calls
// that nobody makes. Needs no communicator.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::coll {

/// JSON for a query such as "what=allreduce ranks=8 kind=cuda bytes=67108864": a row for each power of two up
/// to so many bytes of a vector (allreduce, reduce, bcast, scan, exscan) or block. kind: host, or cuda, where
/// each rank has a GPU of its own.
[[nodiscard]] Result<std::string> explain(const std::string& query);

}  // namespace weft::coll
