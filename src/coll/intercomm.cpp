// SPDX-License-Identifier: BSD-3-Clause
// Construction of intercommunicators, and of intracommunicators from them: the leaders of the two sides
// talk, then each tells its own side.
#include <utility>
#include <vector>

#include "coll/algorithm/algorithms.hpp"
#include "coll/circle.hpp"
#include "coll/construct.hpp"
#include "coll/schedule.hpp"
#include "core/instance.hpp"

namespace weft::coll {
namespace {

using core::Communicator;
using core::ContextId;
using core::Group;
using core::Instance;
using core::ProcessId;
using core::Ref;

/// Ids an intercommunicator takes: its own and one for each side's local communicator.
constexpr uint32_t kIdsEach = 3;

/// What leaders tell one another, and then their sides.
struct Offer {
  ContextId context;  // first of kIdsEach ids that the sender could make
  uint64_t size;      // processes of the sender's side
  uint64_t high;      // MPI_Intercomm_merge
};

/// The side whose first process is lower makes the ids and is the first by default. Both sides agree.
bool lower_side(const Group& local, const Group& remote) { return local.process(0) < remote.process(0); }

/// The id of the local group's own communicator.
ContextId local_context(ContextId id, const Group& local, const Group& remote) {
  return id + (lower_side(local, remote) ? 1 : 2) * core::kContextStep;
}

Communicator* assemble(Instance& instance, ContextId id, Ref<Group> local, Ref<Group> remote) {
  const ContextId own = local_context(id, *local, *remote);
  Ref<Communicator> local_comm(Communicator::create(instance, own, local));
  if (!local_comm) return nullptr;
  Communicator* intercomm = Communicator::create(instance, id, std::move(local), std::move(remote));
  if (intercomm != nullptr) intercomm->local = std::move(local_comm);
  return intercomm;
}

/// Leaders over an existing intercommunicator swap offers; both sides learn the other's.
Result<Offer> swap_offers(Communicator& intercomm, Offer mine) {
  const int tag = intercomm.next_collective_tag();
  Offer theirs{};
  if (intercomm.rank() == 0)
    WEFT_TRY(swap_bytes(intercomm, &mine, sizeof mine, 0, &theirs, sizeof theirs, 0, tag));
  Offer both[2] = {mine, theirs};
  WEFT_TRY(Circle(*intercomm.local, tag).broadcast(both, sizeof both));
  if (!lower_side(*intercomm.group, *intercomm.remote_group)) return both[1];
  both[1].context = both[0].context;  // the lower side's ids are the ones in use
  return both[1];
}

/// Leaders over an existing intercommunicator swap lists, whose lengths both know; each tells its side.
template <class T>
Result<std::vector<T>> swap_lists(Communicator& intercomm, const std::vector<T>& mine, size_t theirs,
                                  int tag) {
  std::vector<T> list(theirs);
  if (intercomm.rank() == 0)
    WEFT_TRY(swap_bytes(intercomm, mine.data(), mine.size() * sizeof(T), 0, list.data(), theirs * sizeof(T),
                        0, tag));
  WEFT_TRY(Circle(*intercomm.local, tag).broadcast(list.data(), theirs * sizeof(T)));
  return list;
}

/// Agreement on the context ids of a duplicate: from the leader of the lower side to the other leader, and
/// down each side. `send.address` is the child, `recv` its id.
Round agree_on_context(const Call& call, int round, Stage& stage) {
  Communicator& parent = *call.comm;
  const bool makes = lower_side(*parent.group, *parent.remote_group);
  if (call.phase == 0) {
    if (round > 0 || call.rank != 0) return Round::next;
    makes ? stage.send(call.recv.whole(), 0) : stage.receive(call.recv.whole(), 0);
    return Round::more;
  }
  Call inner = call;
  inner.comm = parent.local.get();
  const Round made = algorithm::among_group(inner, call, round, stage);
  if (made == Round::done) {
    auto& child = *static_cast<Communicator*>(call.send.address);
    child.local->id = local_context(child.id, *child.group, *child.remote_group);
  }
  return made;
}

const Algorithm kContextAgreement{"agree_on_context", agree_on_context};

/// The local leader's part of MPI_Intercomm_create: learns the remote side's offer and processes.
Status meet(Communicator& peer, int remote_leader, int tag, const Group& local, Offer& offer,
            std::vector<ProcessId>& remote) {
  const Offer mine{offer.context, static_cast<uint64_t>(local.size()), 0};
  WEFT_TRY(swap_bytes(peer, &mine, sizeof mine, remote_leader, &offer, sizeof offer, remote_leader, tag));
  remote.resize(offer.size);
  const auto& processes = local.processes();
  WEFT_TRY(swap_bytes(peer, processes.data(), processes.size() * sizeof(ProcessId), remote_leader,
                      remote.data(), remote.size() * sizeof(ProcessId), remote_leader, tag));
  if (processes[0] < remote[0]) offer.context = mine.context;
  return {};
}

}  // namespace

Made intercomm_create(Communicator& local, int local_leader, Communicator* peer, int remote_leader, int tag) {
  Instance& instance = local.instance;
  const Circle circle(local, local.next_collective_tag());
  Offer offer{};
  std::vector<ProcessId> remote;
  Status met;
  if (local.rank() == local_leader) {
    offer.context = instance.new_contexts(kIdsEach);
    met = meet(*peer, remote_leader, partial_tag(tag), *local.group, offer, remote);
    if (!met.ok()) offer.size = 0;  // the others must not wait for ever
  }
  WEFT_TRY(circle.broadcast(&offer, sizeof offer, local_leader));
  if (!met.ok()) return std::move(met).error();
  if (offer.size == 0) return Error(Errc::other, "the local leader could not reach the remote leader");
  remote.resize(offer.size);
  WEFT_TRY(circle.broadcast(remote.data(), remote.size() * sizeof(ProcessId), local_leader));
  auto remote_group = Ref<Group>(Group::create(std::move(remote), instance.self));
  if (!remote_group) return Error(Errc::no_mem, "no room for another group: free some");
  for (const ProcessId process : remote_group->processes())
    if (local.group->rank_of(process) >= 0)
      return Error(Errc::comm, "the two groups share process " + std::to_string(process) +
                                   ": an intercommunicator needs disjoint groups");
  return inherit(local, assemble(instance, offer.context, local.group, std::move(remote_group)));
}

Made intercomm_duplicate(Communicator& parent) {
  Offer mine{};
  if (parent.rank() == 0) mine.context = parent.instance.new_contexts(kIdsEach);
  auto agreed = swap_offers(parent, mine);
  if (!agreed) return std::move(agreed).error();
  return inherit(parent, assemble(parent.instance, agreed->context, parent.group, parent.remote_group));
}

Made intercomm_merge(Communicator& intercomm, bool high) {
  Offer mine{};
  mine.high = high ? 1 : 0;
  if (intercomm.rank() == 0) mine.context = intercomm.instance.new_contexts();
  auto agreed = swap_offers(intercomm, mine);
  if (!agreed) return std::move(agreed).error();
  const bool lower = lower_side(*intercomm.group, *intercomm.remote_group);
  const bool first = (agreed->high != 0) == high ? lower : !high;
  const Group& front = first ? *intercomm.group : *intercomm.remote_group;
  const Group& back = first ? *intercomm.remote_group : *intercomm.group;
  auto group = front.unite(back);
  if (!group) return std::move(group).error();
  return inherit(intercomm, Communicator::create(intercomm.instance, agreed->context, Ref<Group>(*group)));
}

Result<PendingChild> intercomm_start_duplicate(Communicator& parent) {
  const bool makes = parent.rank() == 0 && lower_side(*parent.group, *parent.remote_group);
  const ContextId offer = makes ? parent.instance.new_contexts(kIdsEach) : 0;
  Made child = inherit(parent, assemble(parent.instance, offer, parent.group, parent.remote_group));
  if (!child) return std::move(child).error();
  return await_context(parent, **child, &kContextAgreement);
}

Made intercomm_split(Communicator& parent, int64_t color, int key) {
  const int tag = parent.next_collective_tag();
  auto mine = gather_wishes(parent, Circle(*parent.local, tag), color, key, kIdsEach);
  if (!mine) return std::move(mine).error();
  auto theirs = swap_lists(parent, *mine, static_cast<size_t>(parent.remote_size()), tag);
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
  const bool lower = lower_side(*local_group, *remote_group);
  const Wish& maker =
      lower ? (*mine)[static_cast<size_t>(here.front())] : (*theirs)[static_cast<size_t>(there.front())];
  return inherit(parent,
                 assemble(parent.instance, maker.context, std::move(local_group), std::move(remote_group)));
}

Made intercomm_subset(Communicator& parent, Group& group) {
  WEFT_TRY(check_subset(group, *parent.group));
  const int tag = parent.next_collective_tag();
  Offer offer{parent.rank() == 0 ? parent.instance.new_contexts(kIdsEach) : 0,
              static_cast<uint64_t>(group.size()), 0};
  auto theirs = swap_lists(parent, std::vector<Offer>{offer}, 1, tag);
  if (!theirs) return std::move(theirs).error();
  auto remote = swap_lists(parent, group.processes(), theirs->front().size, tag);
  if (!remote) return std::move(remote).error();
  WEFT_TRY(Circle(*parent.local, tag).broadcast(&offer, sizeof offer));
  if (group.rank() < 0 || remote->empty()) return nullptr;
  auto remote_group = Ref<Group>(Group::create(std::move(*remote), parent.instance.self));
  if (!remote_group) return Error(Errc::no_mem, "no room for another group: free some");
  // The sides of the parent make the ids, whose leaders may be in neither group.
  const bool lower = lower_side(*parent.group, *parent.remote_group);
  const ContextId id = lower ? offer.context : theirs->front().context;
  return inherit(parent, assemble(parent.instance, id, Ref<Group>::share(&group), std::move(remote_group)));
}

}  // namespace weft::coll
