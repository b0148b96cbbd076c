// SPDX-License-Identifier: BSD-3-Clause
// Construction of intercommunicators, and of intracommunicators from them: the leaders of the two sides
// exchange records, then each leader broadcasts to its own side.
#include <algorithm>
#include <utility>
#include <vector>

#include "coll/bootstrap/group.hpp"
#include "coll/construct/communicators.hpp"
#include "coll/construct/connect.hpp"
#include "coll/schedule/schedule.hpp"
#include "coll/select/table.hpp"
#include "core/instance.hpp"

namespace weft::coll {
namespace {

using core::Communicator;
using core::ContextId;
using core::Group;
using core::Instance;
using core::ProcessId;
using core::Ref;

/// Record that the leaders exchange and broadcast to their sides.
struct LeaderRecord {
  ContextId context;  // first of kIdsPerIntercomm ids proposed by the sender
  uint64_t size;      // number of processes on the sender's side
  uint64_t high;      // MPI_Intercomm_merge; MPI_Intercomm_create: a process of another job takes part
};

/// True on the side with the lower first process, which creates the ids and is first by default.
bool lower_side(const Instance& instance, const Group& local, const Group& remote) {
  return instance.processes.before(local.process(0), remote.process(0));
}
bool lower_side(const Communicator& intercomm) {
  return lower_side(intercomm.instance, *intercomm.group, *intercomm.remote_group);
}

/// The id of the local group's own communicator.
ContextId local_context(const Instance& instance, ContextId id, const Group& local, const Group& remote) {
  return id + (lower_side(instance, local, remote) ? 1 : 2) * core::kContextStep;
}

}  // namespace

Status settle(Communicator& child, ContextId id, Ref<Group> local, Ref<Group> remote) {
  if (remote) {
    const ContextId own = local_context(child.instance, id, *local, *remote);
    Ref<Communicator> local_comm(Communicator::create(child.instance, own, local));
    if (!local_comm) return Error(Errc::no_mem, "out of memory for another communicator: free some");
    local_comm->errhandler = child.errhandler;
    child.local = std::move(local_comm);
  }
  child.settle(id, std::move(local), std::move(remote));
  if (child.local) child.instance.failures.make_part(*child.local, child);
  return {};
}

Communicator* assemble(Instance& instance, ContextId id, Ref<Group> local, Ref<Group> remote) {
  const ContextId own = local_context(instance, id, *local, *remote);
  Ref<Communicator> local_comm(Communicator::create(instance, own, local));
  if (!local_comm) return nullptr;
  Communicator* intercomm = Communicator::create(instance, id, std::move(local), std::move(remote));
  if (intercomm == nullptr) return nullptr;
  intercomm->local = std::move(local_comm);
  instance.failures.make_part(*intercomm->local, *intercomm);
  return intercomm;
}

namespace {

/// The leaders exchange records over an existing intercommunicator; returns the record of the remote side.
Result<LeaderRecord> exchange_leader_records(Communicator& intercomm, LeaderRecord mine) {
  const int tag = intercomm.next_collective_tag();
  LeaderRecord theirs{};
  Status exchanged;
  if (intercomm.rank() == 0)
    exchanged = sendrecv_bytes(intercomm, &mine, sizeof mine, 0, &theirs, sizeof theirs, 0, tag);
  LeaderRecord both[2] = {mine, theirs};
  WEFT_TRY(BootstrapGroup(*intercomm.local, tag).share(std::move(exchanged), both, sizeof both));
  if (!lower_side(intercomm)) return both[1];
  both[1].context = both[0].context;  // the ids of the lower side are used
  return both[1];
}

/// The leaders exchange lists of known lengths over an existing intercommunicator and broadcast them to their
/// sides.
template <class T>
Result<std::vector<T>> exchange_lists(Communicator& intercomm, const std::vector<T>& mine, size_t theirs,
                                      int tag) {
  std::vector<T> list(theirs);
  Status exchanged;
  if (intercomm.rank() == 0)
    exchanged = sendrecv_bytes(intercomm, mine.data(), mine.size() * sizeof(T), 0, list.data(),
                               theirs * sizeof(T), 0, tag);
  WEFT_TRY(
      BootstrapGroup(*intercomm.local, tag).share(std::move(exchanged), list.data(), theirs * sizeof(T)));
  return list;
}

/// Agreement on the context ids of a duplicate: the leader of the lower side sends them to the other leader;
/// both broadcast them. `recv`: the id of the child.
Round agree_on_context(const Call& call, int round, Stage& stage) {
  Communicator& parent = *call.comm;
  const bool makes = lower_side(parent);
  if (call.phase == 0) {
    if (round > 0 || call.rank != 0) return Round::next_phase;
    makes ? stage.send(call.recv.whole(), 0) : stage.receive(call.recv.whole(), 0);
    return Round::more;
  }
  Call inner = call;
  inner.comm = parent.local.get();
  const Round result = select::local_group_round(inner, call, round, stage);
  if (result == Round::done) {
    Communicator& child = *call.child;
    child.local->id = local_context(child.instance, child.id, *child.group, *child.remote_group);
  }
  return result;
}

const Algorithm kContextAgreement{"agree_on_context", agree_on_context};

/// The local leader's part of MPI_Intercomm_create: receives the remote side's record and processes.
Status exchange_with_remote_leader(Communicator& peer, int remote_leader, int tag, const Group& local,
                                   LeaderRecord& record, std::vector<ProcessId>& remote) {
  const core::ProcessTable& table = peer.instance.processes;
  const auto in_own_job = [&](ProcessId process) { return table.in_own_job(process); };
  const bool one_job = in_own_job(peer.process(remote_leader)) &&
                       std::all_of(local.processes().begin(), local.processes().end(), in_own_job);
  const LeaderRecord mine{record.context, static_cast<uint64_t>(local.size()), one_job ? 0u : 1u};
  WEFT_TRY(
      sendrecv_bytes(peer, &mine, sizeof mine, remote_leader, &record, sizeof record, remote_leader, tag));
  record.high |= mine.high;
  if (record.high != 0) return {};  // the numbers of processes mean nothing to other jobs
  remote.resize(record.size);
  const auto& processes = local.processes();
  WEFT_TRY(sendrecv_bytes(peer, processes.data(), processes.size() * sizeof(ProcessId), remote_leader,
                          remote.data(), remote.size() * sizeof(ProcessId), remote_leader, tag));
  if (processes[0] < remote[0]) record.context = mine.context;
  return {};
}

}  // namespace

NewCommunicator intercomm_create(Communicator& local, int local_leader, Communicator* peer, int remote_leader,
                                 int tag) {
  Instance& instance = local.instance;
  const BootstrapGroup bootstrap(local, local.next_collective_tag());
  LeaderRecord record{};
  std::vector<ProcessId> remote;
  Status exchanged;
  if (local.rank() == local_leader) {
    record.context = instance.new_contexts(kIdsPerIntercomm);
    exchanged =
        exchange_with_remote_leader(*peer, remote_leader, partial_tag(tag), *local.group, record, remote);
  }
  WEFT_TRY(bootstrap.share(std::move(exchanged), &record, sizeof record, local_leader));
  if (record.high != 0) return connect_groups(local, local_leader, {peer, remote_leader, partial_tag(tag)});
  remote.resize(record.size);
  WEFT_TRY(bootstrap.broadcast(remote.data(), remote.size() * sizeof(ProcessId), local_leader));
  auto remote_group = Ref<Group>(Group::create(std::move(remote), instance.self));
  if (!remote_group) return Error(Errc::no_mem, "out of memory for another group: free some");
  for (const ProcessId process : remote_group->processes())
    if (local.group->rank_of(process) >= 0)
      return Error(Errc::comm, "the two groups share process " + std::to_string(process) +
                                   ": an intercommunicator needs disjoint groups");
  return make_child(local, record.context, local.group, std::move(remote_group));
}

NewCommunicator intercomm_duplicate(Communicator& parent) {
  LeaderRecord mine{};
  if (parent.rank() == 0) mine.context = parent.instance.new_contexts(kIdsPerIntercomm);
  auto agreed = exchange_leader_records(parent, mine);
  if (!agreed) return std::move(agreed).error();
  return make_child(parent, agreed->context, parent.group, parent.remote_group);
}

NewCommunicator intercomm_merge(Communicator& intercomm, bool high) {
  LeaderRecord mine{};
  mine.high = high ? 1 : 0;
  if (intercomm.rank() == 0) mine.context = intercomm.instance.new_contexts();
  auto agreed = exchange_leader_records(intercomm, mine);
  if (!agreed) return std::move(agreed).error();
  const bool lower = lower_side(intercomm);
  const bool first = (agreed->high != 0) == high ? lower : !high;
  const Group& front = first ? *intercomm.group : *intercomm.remote_group;
  const Group& back = first ? *intercomm.remote_group : *intercomm.group;
  auto group = front.unite(back);
  if (!group) return std::move(group).error();
  return make_child(intercomm, agreed->context, Ref<Group>(*group));
}

Result<PendingChild> intercomm_start_duplicate(Communicator& parent) {
  const bool makes = parent.rank() == 0 && lower_side(parent);
  const ContextId context = makes ? parent.instance.new_contexts(kIdsPerIntercomm) : 0;
  NewCommunicator child = make_child(parent, context, parent.group, parent.remote_group);
  if (!child) return std::move(child).error();
  return start_context_broadcast(parent, **child, &kContextAgreement);
}

NewCommunicator intercomm_split(Communicator& parent, int64_t color, int key) {
  const int tag = parent.next_collective_tag();
  auto mine =
      allgather_split_entries(parent, BootstrapGroup(*parent.local, tag), color, key, kIdsPerIntercomm);
  if (!mine) return std::move(mine).error();
  auto theirs = exchange_lists(parent, *mine, static_cast<size_t>(parent.remote_size()), tag);
  if (!theirs) return std::move(theirs).error();
  if (color < 0) return nullptr;
  const std::vector<int> here = members_of(*mine, color), there = members_of(*theirs, color);
  if (there.empty()) return nullptr;
  auto local = parent.group->include(std::span<const int>(here));
  if (!local) return std::move(local).error();
  Ref<Group> local_group(*local);
  auto remote = parent.remote_group->include(std::span<const int>(there));
  if (!remote) return std::move(remote).error();
  Ref<Group> remote_group(*remote);
  const bool lower = lower_side(parent.instance, *local_group, *remote_group);
  const SplitEntry& maker =
      lower ? (*mine)[static_cast<size_t>(here.front())] : (*theirs)[static_cast<size_t>(there.front())];
  return make_child(parent, maker.context, std::move(local_group), std::move(remote_group));
}

NewCommunicator intercomm_subset(Communicator& parent, Group& group) {
  WEFT_TRY(check_subset(group, *parent.group));
  const int tag = parent.next_collective_tag();
  LeaderRecord record{parent.rank() == 0 ? parent.instance.new_contexts(kIdsPerIntercomm) : 0,
                      static_cast<uint64_t>(group.size()), 0};
  auto theirs = exchange_lists(parent, std::vector<LeaderRecord>{record}, 1, tag);
  if (!theirs) return std::move(theirs).error();
  auto remote = exchange_lists(parent, group.processes(), theirs->front().size, tag);
  if (!remote) return std::move(remote).error();
  WEFT_TRY(BootstrapGroup(*parent.local, tag).broadcast(&record, sizeof record));
  if (group.rank() < 0 || remote->empty()) return nullptr;
  auto remote_group = Ref<Group>(Group::create(std::move(*remote), parent.instance.self));
  if (!remote_group) return Error(Errc::no_mem, "out of memory for another group: free some");
  // The leaders of the parent's sides create the ids; they may be in neither group.
  const bool lower = lower_side(parent);
  const ContextId id = lower ? record.context : theirs->front().context;
  return make_child(parent, id, Ref<Group>::share(&group), std::move(remote_group));
}

}  // namespace weft::coll
