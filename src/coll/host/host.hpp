// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives of small and medium data between ranks of one host, in shared memory: no messages.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/schedule/call.hpp"

namespace weft::coll::host {

class SlotChannel;

/// True if the call can run in shared memory. Depends only on values equal on all ranks.
[[nodiscard]] bool eligible(const Call& call);
/// Runs the call, which is eligible, to completion.
[[nodiscard]] Status run(const Call& call, SlotChannel& channel);

}  // namespace weft::coll::host
