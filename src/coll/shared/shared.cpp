// SPDX-License-Identifier: BSD-3-Clause
// Collectives by lanes: which calls.
#include "coll/shared/shared.hpp"

#include "base/config.hpp"
#include "coll/gpu/agreement.hpp"
#include "coll/gpu/plan.hpp"
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
  explicit State(core::Communicator& comm) : channel(comm), domain(comm) {}
  Channel channel;
  gpu::Domain domain;
  uint32_t calls = 0;
  bool settled = false;  // the channel is open, or never will be
};

/// Where operands may be in GPU memory all ranks say where theirs are.
Way way_among_gpus(const Call& call, bool here, State& state, Status& failed) {
  const gpu::Agreement agreed = gpu::agree(call, state.channel, state.domain);
  if (agreed.way == gpu::Way::host) return {here ? &state.channel : nullptr};
  if (agreed.way == gpu::Way::messages) return {};
  if (state.domain.state() == gpu::Domain::State::unknown) failed = state.domain.connect(agreed.memory);
  if (state.domain.state() != gpu::Domain::State::open) return {};
  return {&state.channel, &state.domain, agreed.largest};
}

}  // namespace

Way way_for(const Call& call, Status& failed) {
  const bool here = suits(call);
  if ((!here && !gpu::suits(call)) || enabled.index() != 0 || select::forced(call.what)) return {};
  core::Communicator& comm = *call.comm;
  auto* state = static_cast<State*>(comm.collective.get());
  if (state == nullptr) [[unlikely]] {
    if (comm.instance.shm == nullptr || static_cast<size_t>(call.size) > max_ranks || !comm.on_one_host())
      return {};
    state = new State(comm);
    comm.collective.reset(state);
  }
  if (!state->settled) [[unlikely]] {
    if (state->calls++ < after) return {};
    state->settled = true;
    failed = state->channel.connect();
  }
  Channel& channel = state->channel;
  if (!channel.open()) return {};
  if (!channel.mixed() || call.what == Collective::barrier) return {here ? &channel : nullptr};
  return way_among_gpus(call, here, *state, failed);
}

Status run(const Call& call, Channel& channel) { return Run(call, channel, direct(call, channel))(); }

}  // namespace weft::coll::shared
