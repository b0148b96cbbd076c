// SPDX-License-Identifier: BSD-3-Clause
// Selects the path of a collective: slot areas of shared memory, kernels, or an algorithm of messages.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "coll/schedule/schedule.hpp"

namespace weft::coll::gpu {
class CollectiveQueue;
class Domain;
enum class Layouts : uint8_t;
}  // namespace weft::coll::gpu

namespace weft::coll::host {
class SlotChannel;
}

namespace weft::coll::dispatch {

/// How a blocking call is run.
struct Path {
  host::SlotChannel* channel = nullptr;   ///< null: point-to-point messages
  gpu::Domain* domain = nullptr;          ///< null: no kernels, the channel runs the call
  uint64_t largest = 0;                   ///< for the domain
  bool resident_kernels_running = false;  ///< for the domain
  gpu::Layouts layouts{};                 ///< for the domain
};
/// Selects the path of a blocking call; equal on all ranks. Counts the calls of a communicator. Collectively
/// leases the slot areas after coll.shared_min_calls calls, and opens the domain when operands are in GPU
/// memory; stores errors in `failed`.
[[nodiscard]] Path select_path(const Call& call, Status& failed);
/// True if a blocking call on host memory among ranks of one host uses slot areas once they are leased.
[[nodiscard]] bool may_use_slots(const Call& call);
/// Returns the queue of a nonblocking call that kernels may run; null: messages run the call.
[[nodiscard]] gpu::CollectiveQueue* collective_queue_for(const Call& call, Status& failed);
/// The same when a persistent request is created: waits for the other ranks until the channel is connected.
[[nodiscard]] gpu::CollectiveQueue* collective_queue_connected(const Call& call, Status& failed);
/// Collective: waits until the path of every nonblocking call of a communicator is decided. Call it before
/// hints change, since each rank decides at another time.
void decide_all(const core::Communicator& comm);

/// The algorithm of a call by messages: the algorithm of the setting coll.<collective> if it supports the
/// call, else a hierarchical algorithm on several hosts, else the algorithm of the selection table.
[[nodiscard]] const Algorithm& choose(const Call& call);

}  // namespace weft::coll::dispatch
