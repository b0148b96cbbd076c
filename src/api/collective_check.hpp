// SPDX-License-Identifier: BSD-3-Clause
// Comparison of the arguments of a blocking collective over all ranks (setting `check` = on).
#pragma once
#include "base/result.hpp"
#include "coll/schedule/call.hpp"

namespace weft::api {

/// Collective. Returns the same error on all ranks if the ranks make different calls, or pass different
/// roots, operations, datatypes or sizes. Lengths that may differ by rank (v-variants) and intercommunicators
/// are not compared. Precondition: reporting().
[[nodiscard]] Status compare_collective(const coll::Call& call);

}  // namespace weft::api
