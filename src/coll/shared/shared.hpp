// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives of small and medium data between ranks of one host, in shared memory: no messages.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/call.hpp"

namespace weft::coll::shared {

class Channel;

/// The channel by which this blocking call is to be run; null: by messages. Equal on all ranks. Counts the
/// calls, and leases lanes once a communicator has made some (collectively; its errors are in `leased`).
/// Operands in GPU memory on any rank: by messages.
[[nodiscard]] Channel* channel_for(const Call& call, Status& leased);
/// Runs the call to its end.
[[nodiscard]] Status run(const Call& call, Channel& channel);

}  // namespace weft::coll::shared
