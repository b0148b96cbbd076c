// SPDX-License-Identifier: BSD-3-Clause
// Collectives by lanes: which calls.
#include "coll/shared/shared.hpp"

#include "base/config.hpp"
#include "coll/gpu/agenda.hpp"
#include "coll/gpu/agreement.hpp"
#include "coll/gpu/direct.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/gpu/provider.hpp"
#include "coll/select/table.hpp"
#include "coll/shared/run.hpp"

namespace weft::coll::shared {
namespace {

config::Choice enabled{"coll.shared",
                       0,
                       {"on", "off"},
                       "blocking collectives in shared memory, where no algorithm is set for them"};
config::Size after{"coll.shared_after", 8, 0, 1 << 30,
                   "blocking collectives that a communicator makes before it takes shared memory for them"};
config::Size device_after{"coll.device_after", 0, 0, 1 << 30,
                          "the same where every rank has a CUDA driver, for calls that kernels may do"};
config::Size max_ranks{"coll.shared_ranks", 32, 2, 4096,
                       "ranks of a communicator that may use shared memory"};
config::Size max_bytes{"coll.shared_max", 64 << 10, 0, 1 << 30,
                       "bytes of a vector, or of a block, up to which collectives use shared memory"};
config::Size max_total{"coll.shared_total", 1 << 20, 0, 1 << 30,
                       "bytes of all blocks of a rank up to which collectives use shared memory"};

config::Size max_copied{
    "coll.shared_copy_max", 64 << 10, 0, 1 << 30,
    "bytes that a rank shows to others up to which they are copied into shared memory; beyond, ranks "
    "read each other's memory where they can"};

/// Whether a call is of the kind that is done here; sees only what is equal on all ranks.
bool suits(const Call& call) {
  if (call.size < 2 || call.inter() || call.bytes > max_bytes) return false;
  switch (call.what) {
    case Collective::barrier:
    case Collective::bcast:
      return true;
    case Collective::reduce:
    case Collective::allreduce:
      return !call.op->user && call.recv.type->contiguous();
    case Collective::gather:
    case Collective::scatter:
    case Collective::allgather:
    case Collective::alltoall:
      return call.bytes * static_cast<uint64_t>(call.size) <= max_total;
    default:
      return false;
  }
}

/// Whether ranks read each other's memory; equal on all ranks.
bool direct(const Call& call, const Channel& channel) {
  const bool blocks = call.what == Collective::alltoall || call.what == Collective::scatter;
  const uint64_t shown = call.bytes * static_cast<uint64_t>(blocks ? call.size - 1 : 1);
  return shown > max_copied && channel.direct();
}

/// What a communicator keeps: a count, then a channel.
struct State final : core::CollectiveState {
  explicit State(core::Communicator& comm)
      : channel(comm), domain(comm), agenda(comm, channel, domain), provider(comm) {}
  Channel channel;
  gpu::Domain domain;
  gpu::Agenda agenda;
  gpu::Provider provider;
  uint32_t calls = 0;
  bool connected = false;  // the channel is open, never will be, or is about to be
};

bool all_have_gpus(const core::Communicator& comm) {
  for (int rank = 0; rank < comm.size(); ++rank)
    if (!comm.instance.shm->has_gpus(comm.process(rank))) return false;
  return true;
}

/// Null where there never will be a channel.
State* state_of(const Call& call) {
  core::Communicator& comm = *call.comm;
  if (!comm.on_one_host()) return nullptr;  // it has a Hierarchy
  auto* state = static_cast<State*>(comm.collective.get());
  if (state != nullptr) [[likely]]
    return state;
  if (comm.instance.shm == nullptr || static_cast<size_t>(call.size) > max_ranks) return nullptr;
  state = new State(comm);
  comm.collective.reset(state);
  return state;
}

/// Counts calls until the channel is worth its lanes; equal on all ranks. Collective the first time.
bool worth(const Call& call, State& state, Status& failed) {
  if (state.connected) [[likely]]
    return true;
  const bool kernels = gpu::suits(call) && all_have_gpus(*call.comm);
  if (state.calls++ < (kernels ? device_after : after)) return false;
  state.connected = true;
  failed = state.channel.connect();
  return failed.ok();
}

/// Where operands may be in GPU memory all ranks say where theirs are.
Way way_among_gpus(const Call& call, bool here, State& state, Status& failed) {
  const gpu::Agreement agreed = gpu::agree(call, state.channel, state.domain, {state.agenda.busy()});
  if (agreed.way == gpu::Way::host) return {here ? &state.channel : nullptr};
  if (agreed.way == gpu::Way::messages) return {};
  if (agreed.way == gpu::Way::mismatch) {
    failed = agreed.mismatch(call);
    return {};
  }
  state.domain.connect_now(agreed.memory, agreed.largest, state.channel);
  if (state.domain.state() != gpu::Domain::State::open) return {};
  const bool provided = state.provider.takes(call, agreed.largest, agreed.memory);
  if (!provided && gpu::wants_direct(call, agreed.largest) &&
      !state.domain.prepare_direct(call, agreed.largest, state.channel) && !gpu::pays(call, agreed.largest))
    return {};
  return {&state.channel, &state.domain, agreed.largest, agreed.awake, provided ? &state.provider : nullptr};
}

bool off(const Call& call) { return enabled.index() != 0 || select::forced(call.what); }

/// Of calls that are not blocking: where all ranks may have GPUs.
State* state_for_later(const Call& call, Status& failed) {
  if (!device::available() || call.inter() || !gpu::suits(call) || off(call)) return nullptr;
  State* state = state_of(call);
  if (state == nullptr || !all_have_gpus(*call.comm) || !worth(call, *state, failed)) return nullptr;
  return state;
}

}  // namespace

bool possible(const Call& call) {
  return suits(call) && !off(call) && static_cast<size_t>(call.size) <= max_ranks;
}

Way way_for(const Call& call, Status& failed) {
  const bool here = suits(call);
  if ((!here && !gpu::suits(call)) || off(call)) return {};
  State* state = state_of(call);
  if (state == nullptr || !worth(call, *state, failed)) return {};
  Channel& channel = state->channel;
  if (!channel.settled()) [[unlikely]]
    failed = channel.settle();
  if (!channel.open()) return {};
  if (!channel.mixed() || call.what == Collective::barrier) return {here ? &channel : nullptr};
  return way_among_gpus(call, here, *state, failed);
}

gpu::Agenda* agenda_for(const Call& call, Status& failed) {
  State* state = state_for_later(call, failed);
  return state == nullptr || (state->channel.settled() && !state->channel.open()) ? nullptr : &state->agenda;
}

gpu::Agenda* agenda_now(const Call& call, Status& failed) {
  State* state = state_for_later(call, failed);
  if (state == nullptr) return nullptr;
  failed = state->channel.settle();
  return state->channel.open() ? &state->agenda : nullptr;
}

void decide_all(const core::Communicator& comm) {
  if (comm.collective == nullptr || !comm.on_one_host()) return;
  static_cast<State&>(*comm.collective).agenda.decide_all();
}

Status run(const Call& call, Channel& channel) { return Run(call, channel, direct(call, channel))(); }

}  // namespace weft::coll::shared
