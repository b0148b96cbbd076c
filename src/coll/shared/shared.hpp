// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives of small and medium data between ranks of one host, in shared memory: no messages.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/call.hpp"

namespace weft::coll::gpu {
class Agenda;
class Domain;
class Provider;
}  // namespace weft::coll::gpu

namespace weft::coll::shared {

class Channel;

/// How a blocking call is to be run.
struct Way {
  Channel* channel = nullptr;         ///< null: by messages
  gpu::Domain* domain = nullptr;      ///< by kernels; null: by the channel
  uint64_t largest = 0;               ///< for the domain
  bool awake = false;                 ///< for the domain
  gpu::Provider* provider = nullptr;  ///< by NCCL instead
};
/// Equal on all ranks. Counts the calls; leases lanes once a communicator has made some, and opens its domain
/// when operands are in GPU memory (collectively; errors are in `failed`).
[[nodiscard]] Way way_for(const Call& call, Status& failed);
/// Whether a blocking call among ranks of one host, in host memory, goes by lanes once there are some.
[[nodiscard]] bool possible(const Call& call);
/// For a nonblocking call that kernels may do: where it waits for its turn; null: messages do it.
[[nodiscard]] gpu::Agenda* agenda_for(const Call& call, Status& failed);
/// The same for a persistent call when it is made, which may wait for the others.
[[nodiscard]] gpu::Agenda* agenda_now(const Call& call, Status& failed);
/// Collective: waits until the path of every nonblocking call of a communicator is decided. To be called
/// before hints change, since each rank decides at another time.
void decide_all(const core::Communicator& comm);
/// Runs the call to its end.
[[nodiscard]] Status run(const Call& call, Channel& channel);

}  // namespace weft::coll::shared
