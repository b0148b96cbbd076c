// SPDX-License-Identifier: BSD-3-Clause
// Construction of intracommunicators.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "coll/bootstrap/group.hpp"
#include "coll/construct/communicators.hpp"
#include "coll/schedule/collective.hpp"
#include "core/instance.hpp"

namespace weft::coll {
namespace {

using core::Communicator;
using core::ContextId;
using core::Group;
using core::Instance;
using core::ProcessId;
using core::Ref;

/// FNV-1a.
uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

/// Broadcasts a context id created by the first member.
Result<ContextId> agree_on_context_id(Instance& instance, const BootstrapGroup& bootstrap) {
  ContextId id = bootstrap.rank() == 0 ? instance.new_contexts() : 0;
  WEFT_TRY(bootstrap.broadcast(&id, sizeof id));
  return id;
}

NewCommunicator create_from_members(Communicator& parent, Group& group, int tag) {
  auto id = agree_on_context_id(parent.instance, BootstrapGroup(parent, group, tag));
  if (!id) return std::move(id).error();
  return make_child(parent, *id, Ref<Group>::share(&group));
}

/// `users`: processes that need each other.
Result<Ref<Communicator>> make_bootstrap_communicator(Instance& instance, Ref<Group> users) {
  std::vector<ProcessId> processes(instance.size);
  std::iota(processes.begin(), processes.end(), ProcessId{0});
  auto everyone = Ref<Group>(Group::create(std::move(processes), instance.self));
  Ref<Communicator> bootstrap(Communicator::create(instance, kBootstrapContext, std::move(everyone)));
  if (!bootstrap) return Error(Errc::no_mem, "out of memory for another communicator: free some");
  bootstrap->has_handle = false;
  bootstrap->users = std::move(users);
  return bootstrap;
}

int tag_of(std::string_view name) { return static_cast<int>(hash(name) & (INT32_MAX >> 1)); }

}  // namespace

Status check_subset(const Group& group, const Group& whole) {
  for (const ProcessId process : group.processes())
    if (whole.rank_of(process) < 0)
      return Error(Errc::group, "the group holds process " + std::to_string(process) +
                                    ", which is not in the communicator's group");
  return {};
}

Result<std::vector<SplitEntry>> allgather_split_entries(Communicator& parent, const BootstrapGroup& bootstrap,
                                                        int64_t color, int key, uint32_t ids) {
  std::vector<SplitEntry> entries(static_cast<size_t>(bootstrap.size()));
  const ContextId context = color < 0 ? 0 : parent.instance.new_contexts(ids);
  entries[static_cast<size_t>(bootstrap.rank())] = {color, key, context};
  WEFT_TRY(bootstrap.allgather(entries.data(), sizeof(SplitEntry)));
  return entries;
}

std::vector<int> members_of(const std::vector<SplitEntry>& entries, int64_t color) {
  std::vector<int> ranks;
  for (size_t n = 0; n < entries.size(); ++n)
    if (entries[n].color == color) ranks.push_back(static_cast<int>(n));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return entries[static_cast<size_t>(a)].key < entries[static_cast<size_t>(b)].key;
  });
  return ranks;
}

NewCommunicator inherit(Communicator& parent, Communicator* child) {
  if (child == nullptr) return Error(Errc::no_mem, "out of memory for another communicator: free some");
  child->errhandler = parent.errhandler;
  if (child->local) child->local->errhandler = parent.errhandler;
  return child;
}

NewCommunicator make_child(Communicator& parent, ContextId id, Ref<Group> local, Ref<Group> remote) {
  Instance& instance = parent.instance;
  if (!Communicator::valid_id(instance, id))
    return Error(Errc::other,
                 "the ranks of " + parent.name +
                     " do not call the same collective operations in the same order: they agreed "
                     "on context id " +
                     std::to_string(id));
  return inherit(parent, remote ? assemble(instance, id, std::move(local), std::move(remote))
                                : Communicator::create(instance, id, std::move(local)));
}

NewCommunicator duplicate(Communicator& parent) {
  if (parent.inter()) return intercomm_duplicate(parent);
  auto id = agree_on_context_id(parent.instance, BootstrapGroup(parent, parent.next_collective_tag()));
  if (!id) return std::move(id).error();
  NewCommunicator child = make_child(parent, *id, parent.group);
  if (child.ok() && parent.topology) (*child)->topology = parent.topology->clone();
  return child;
}

Result<PendingChild> start_duplicate(Communicator& parent) {
  if (parent.inter()) return intercomm_start_duplicate(parent);
  const ContextId context = parent.rank() == 0 ? parent.instance.new_contexts() : 0;
  NewCommunicator child = make_child(parent, context, parent.group);
  if (!child) return std::move(child).error();
  if (parent.topology) (*child)->topology = parent.topology->clone();
  return start_context_broadcast(parent, **child);
}

Result<PendingChild> start_context_broadcast(Communicator& parent, Communicator& child,
                                             const Algorithm* algorithm) {
  Call call;
  call.what = Collective::bcast;
  call.comm = &parent;
  call.rank = parent.rank();
  call.size = parent.size();
  const p2p::Buffer id = packed(&child.id, sizeof(ContextId));
  call.child = &child;
  call.recv.address = id.address;
  call.recv.count = id.count;
  call.recv.type = id.type;
  call.recv.classified = true;  // host memory
  call.bytes = sizeof(ContextId);
  auto request = algorithm != nullptr ? start(call, *algorithm) : start(call);
  if (request.ok()) return PendingChild{&child, *request};
  child.release();
  return std::move(request).error();
}

NewCommunicator split(Communicator& parent, int64_t color, int key) {
  if (parent.inter()) return intercomm_split(parent, color, key);
  auto entries =
      allgather_split_entries(parent, BootstrapGroup(parent, parent.next_collective_tag()), color, key, 1);
  if (!entries) return std::move(entries).error();
  if (color < 0) return nullptr;
  const std::vector<int> ranks = members_of(*entries, color);
  auto group = parent.group->include(std::span<const int>(ranks));
  if (!group) return std::move(group).error();
  const ContextId id = (*entries)[static_cast<size_t>(ranks.front())].context;
  return make_child(parent, id, Ref<Group>(*group));
}

NewCommunicator split_proper(Communicator& parent, int64_t color, int key) {
  NewCommunicator child = split(parent, color, key);
  if (!child.ok() || *child == nullptr || (*child)->size() < parent.size()) return child;
  (*child)->release();
  return nullptr;
}

int64_t host_color(Instance& instance) {
  const launch::Job& job = instance.exchange->job();
  if (!job.host_of_rank.empty()) return job.host_of_rank[static_cast<size_t>(job.rank)];
  // Without host numbers from the launcher: the boot id, which identifies a running host.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return static_cast<int64_t>(hash(boot) & INT64_MAX);
}

NewCommunicator create(Communicator& parent, Group& group) {
  if (parent.inter()) return intercomm_subset(parent, group);
  const int tag = parent.next_collective_tag();
  WEFT_TRY(check_subset(group, *parent.group));
  if (group.rank() < 0) return nullptr;
  return create_from_members(parent, group, tag);
}

NewCommunicator create_group(Communicator& parent, Group& group, int tag) {
  if (parent.inter())
    return Error(Errc::comm,
                 "comm is an intercommunicator: MPI_Comm_create_group needs an intracommunicator");
  WEFT_TRY(check_subset(group, *parent.group));
  if (group.rank() < 0) return nullptr;
  return create_from_members(parent, group, partial_tag(tag));
}

NewCommunicator create_from_group(Instance& instance, Group& group, std::string_view name) {
  if (group.size() == 0) return nullptr;
  if (group.rank() < 0) return Error(Errc::group, "this process is not in the group of the new communicator");
  auto bootstrap = make_bootstrap_communicator(instance, Ref<Group>::share(&group));
  if (!bootstrap) return std::move(bootstrap).error();
  return create_from_members(**bootstrap, group, partial_tag(tag_of(name)));
}

NewCommunicator intercomm_create_from_groups(Instance& instance, Group& local, int local_leader,
                                             const Group& remote, int remote_leader, std::string_view name) {
  if (local.size() == 0 || remote.size() == 0) return nullptr;
  for (const ProcessId process : remote.processes())
    if (local.rank_of(process) >= 0)
      return Error(Errc::group, "both groups hold process " + std::to_string(process) +
                                    ": an intercommunicator needs disjoint groups");
  NewCommunicator side = create_from_group(instance, local, name);
  if (!side) return side;
  const Ref<Communicator> local_comm(*side);
  auto users = local.unite(remote);
  if (!users) return std::move(users).error();
  auto bootstrap = make_bootstrap_communicator(instance, Ref<Group>(*users));
  if (!bootstrap) return std::move(bootstrap).error();
  const auto leader = static_cast<int>(remote.process(remote_leader));
  NewCommunicator made = intercomm_create(*local_comm, local_leader, bootstrap->get(), leader, tag_of(name));
  if (!made || (*made)->remote_group->compare(remote) == core::Comparison::identical) return made;
  (*made)->release();
  return Error(Errc::group, "the remote side passed another group than remote_group: both sides must agree");
}

}  // namespace weft::coll
