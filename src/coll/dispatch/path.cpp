// SPDX-License-Identifier: BSD-3-Clause
// Paths of collectives among the ranks of one host: slot areas, kernels or messages.
#include "coll/dispatch/path.hpp"

#include "base/config.hpp"
#include "coll/gpu/agreement.hpp"
#include "coll/gpu/collective_queue.hpp"
#include "coll/gpu/direct_buffers.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/hierarchy/hierarchy.hpp"
#include "coll/hierarchy/schedules.hpp"
#include "coll/host/host.hpp"
#include "coll/host/slot_channel.hpp"
#include "coll/select/table.hpp"

namespace weft::coll::dispatch {
namespace {

config::Choice enabled{
    "coll.shared",
    0,
    {"on", "off"},
    "Blocking collectives of one host through shared memory, where no algorithm is set for them.",
    "a problem may be in shared-memory collectives (off)"};
config::Size shared_min_calls{
    "coll.shared_min_calls", 8, 0, 1 << 30,
    "Number of blocking collectives on a communicator before it leases its slot areas in shared memory."};
/// State of a communicator on one host: a count of calls, then a channel.
struct CommState final : core::CollectiveState {
  explicit CommState(core::Communicator& comm) : channel(comm), domain(comm), queue(comm, channel, domain) {}
  host::SlotChannel channel;
  gpu::Domain domain;
  gpu::CollectiveQueue queue;
  uint32_t calls = 0;
  bool connected = false;  // the channel's allgather has started
};

bool all_have_gpus(const core::Communicator& comm) {
  for (int rank = 0; rank < comm.size(); ++rank)
    if (!comm.instance.shm->has_gpus(comm.process(rank))) return false;
  return true;
}

/// Returns null if the communicator never has a channel.
CommState* state_of(const Call& call) {
  core::Communicator& comm = *call.comm;
  if (!comm.on_one_host()) return nullptr;  // a Hierarchy serves it
  auto* state = static_cast<CommState*>(comm.collective.get());
  if (state != nullptr) [[likely]]
    return state;
  if (comm.instance.shm == nullptr || call.size > host::kMaxRanks) return nullptr;
  state = new CommState(comm);
  comm.collective.reset(state);
  return state;
}

/// Counts calls; true once the minimum is reached. Equal on all ranks. The call that reaches it is
/// collective.
bool activated(const Call& call, CommState& state, Status& failed) {
  if (state.connected) [[likely]]
    return true;
  const bool kernels = gpu::supports(call) && all_have_gpus(*call.comm);
  if (state.calls++ < shared_min_calls && !kernels) return false;
  state.connected = true;
  failed = state.channel.connect();
  return failed.ok();
}

/// Operands may be in GPU memory: all ranks publish their memory kinds and agree on a path.
Path select_gpu_path(const Call& call, bool host_eligible, CommState& state, Status& failed) {
  const gpu::Agreement agreed = gpu::reduce_votes(call, state.channel, state.domain, {state.queue.busy()});
  if (state.channel.broken()) {  // the votes are stale
    failed = state.channel.failure();
    return {};
  }
  if (agreed.path == gpu::AgreedPath::host) return {host_eligible ? &state.channel : nullptr};
  if (agreed.path == gpu::AgreedPath::messages) return {};
  if (agreed.path == gpu::AgreedPath::mismatch) {
    failed = agreed.mismatch(call);
    return {};
  }
  failed = state.domain.connect_now(agreed.memory, state.channel);
  if (!failed.ok()) return {};
  if (state.domain.state() != gpu::Domain::State::open) return {};
  if (gpu::wants_direct_buffers(call, agreed.largest, agreed.layouts) &&
      !state.domain.prepare_direct_buffers(call, agreed.largest, agreed.layouts, state.channel)) {
    if (state.channel.broken()) failed = state.channel.failure();
    if (!failed.ok() || !gpu::kernels_faster(call, agreed.largest, agreed.layouts)) return {};
  }
  return {&state.channel, &state.domain, agreed.largest, agreed.resident_running, agreed.layouts};
}

bool disabled(const Call& call) { return enabled.index() != 0 || select::forced(call.what); }

/// State for a nonblocking or persistent call; null unless all ranks have GPUs.
CommState* state_for_nonblocking(const Call& call, Status& failed) {
  if (!device::available() || call.inter() || !gpu::supports(call) || disabled(call)) return nullptr;
  CommState* state = state_of(call);
  if (state == nullptr || !all_have_gpus(*call.comm) || !activated(call, *state, failed)) return nullptr;
  return state;
}

}  // namespace

bool may_use_slots(const Call& call) {
  return host::eligible(call) && !disabled(call) && call.size <= host::kMaxRanks;
}

Path select_path(const Call& call, Status& failed) {
  const bool host_eligible = host::eligible(call);
  if ((!host_eligible && !gpu::supports(call)) || disabled(call)) return {};
  CommState* state = state_of(call);
  if (state == nullptr || !activated(call, *state, failed)) return {};
  host::SlotChannel& channel = state->channel;
  if (!channel.connected()) [[unlikely]]
    failed = channel.wait_connected();
  if (!channel.open()) return {};
  if (!channel.any_gpus() || call.what == Collective::barrier) return {host_eligible ? &channel : nullptr};
  return select_gpu_path(call, host_eligible, *state, failed);
}

gpu::CollectiveQueue* collective_queue_for(const Call& call, Status& failed) {
  CommState* state = state_for_nonblocking(call, failed);
  return state == nullptr || (state->channel.connected() && !state->channel.open()) ? nullptr : &state->queue;
}

gpu::CollectiveQueue* collective_queue_connected(const Call& call, Status& failed) {
  CommState* state = state_for_nonblocking(call, failed);
  if (state == nullptr) return nullptr;
  failed = state->channel.wait_connected();
  return state->channel.open() ? &state->queue : nullptr;
}

void decide_all(const core::Communicator& comm) {
  if (comm.collective == nullptr || !comm.on_one_host()) return;
  static_cast<CommState&>(*comm.collective).queue.decide_all();
}

const Algorithm& choose(const Call& call) {
  if (call.inter()) [[unlikely]]
    return hierarchy::inter_algorithm(call.what);
  if (call.comm != nullptr && !call.comm->on_one_host() && Hierarchy::eligible_for_schedule(call))
      [[unlikely]]
    if (const Algorithm* const algorithm = hierarchy::hierarchical(call.what)) return *algorithm;
  return select::by_table(call);
}

}  // namespace weft::coll::dispatch
