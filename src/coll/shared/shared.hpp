// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives of small and medium data between ranks of one host, in shared memory: no messages.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/call.hpp"

namespace weft::coll::gpu {
class Domain;
}

namespace weft::coll::shared {

class Channel;

/// How a blocking call is to be run.
struct Way {
  Channel* channel = nullptr;     ///< null: by messages
  gpu::Domain* domain = nullptr;  ///< by kernels; null: by the channel
  uint64_t largest = 0;           ///< for the domain
};
/// Equal on all ranks. Counts the calls; leases lanes once a communicator has made some, and opens its domain
/// when operands are in GPU memory (collectively; errors are in `failed`).
[[nodiscard]] Way way_for(const Call& call, Status& failed);
/// Runs the call to its end.
[[nodiscard]] Status run(const Call& call, Channel& channel);

}  // namespace weft::coll::shared
