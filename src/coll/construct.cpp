// SPDX-License-Identifier: BSD-3-Clause
// Construction of intracommunicators.
#include "coll/construct.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "coll/circle.hpp"
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

/// FNV-1a.
uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

/// The members agree on a context id made by the first of them.
Result<ContextId> agree(Instance& instance, const Circle& circle) {
  ContextId id = circle.rank() == 0 ? instance.new_contexts() : 0;
  WEFT_TRY(circle.broadcast(&id, sizeof id));
  return id;
}

Made create_among(Communicator& parent, Group& group, int tag) {
  auto id = agree(parent.instance, Circle(parent, group, tag));
  if (!id) return std::move(id).error();
  return inherit(parent, Communicator::create(parent.instance, *id, Ref<Group>::share(&group)));
}

Result<Ref<Communicator>> bootstrap_communicator(Instance& instance) {
  std::vector<ProcessId> processes(instance.size);
  std::iota(processes.begin(), processes.end(), ProcessId{0});
  auto everyone = Ref<Group>(Group::create(std::move(processes), instance.self));
  Ref<Communicator> bootstrap(Communicator::create(instance, kBootstrapContext, std::move(everyone)));
  if (!bootstrap) return Error(Errc::no_mem, "no room for another communicator: free some");
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

Result<std::vector<Wish>> gather_wishes(Communicator& members, const Circle& circle, int64_t color, int key,
                                        uint32_t ids) {
  std::vector<Wish> wishes(static_cast<size_t>(circle.size()));
  const ContextId offer = color < 0 ? 0 : members.instance.new_contexts(ids);
  wishes[static_cast<size_t>(circle.rank())] = {color, key, offer};
  WEFT_TRY(circle.gather_all(wishes.data(), sizeof(Wish)));
  return wishes;
}

std::vector<int> members_of(const std::vector<Wish>& wishes, int64_t color) {
  std::vector<int> ranks;
  for (size_t n = 0; n < wishes.size(); ++n)
    if (wishes[n].color == color) ranks.push_back(static_cast<int>(n));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  return ranks;
}

Made inherit(Communicator& parent, Communicator* child) {
  if (child == nullptr) return Error(Errc::no_mem, "no room for another communicator: free some");
  child->errhandler = parent.errhandler;
  if (child->local) child->local->errhandler = parent.errhandler;
  return child;
}

Made duplicate(Communicator& parent) {
  if (parent.inter()) return intercomm_duplicate(parent);
  auto id = agree(parent.instance, Circle(parent, parent.next_collective_tag()));
  if (!id) return std::move(id).error();
  Made child = inherit(parent, Communicator::create(parent.instance, *id, parent.group));
  if (child.ok() && parent.topology) (*child)->topology = parent.topology->clone();
  return child;
}

Result<PendingChild> start_duplicate(Communicator& parent) {
  if (parent.inter()) return intercomm_start_duplicate(parent);
  const ContextId offer = parent.rank() == 0 ? parent.instance.new_contexts() : 0;
  Made child = inherit(parent, Communicator::create(parent.instance, offer, parent.group));
  if (!child) return std::move(child).error();
  if (parent.topology) (*child)->topology = parent.topology->clone();
  return await_context(parent, **child);
}

Result<PendingChild> await_context(Communicator& parent, Communicator& child, const Algorithm* algorithm) {
  Call call;
  call.what = Collective::bcast;
  call.comm = &parent;
  call.rank = parent.rank();
  call.size = parent.size();
  const p2p::Buffer id = packed(&child.id, sizeof(ContextId));
  if (algorithm != nullptr) call.send.address = &child;
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

Made split(Communicator& parent, int64_t color, int key) {
  if (parent.inter()) return intercomm_split(parent, color, key);
  auto wishes = gather_wishes(parent, Circle(parent, parent.next_collective_tag()), color, key, 1);
  if (!wishes) return std::move(wishes).error();
  if (color < 0) return nullptr;
  const std::vector<int> ranks = members_of(*wishes, color);
  auto group = parent.group->include(std::span<const int>(ranks));
  if (!group) return std::move(group).error();
  const ContextId id = (*wishes)[static_cast<size_t>(ranks.front())].context;
  return inherit(parent, Communicator::create(parent.instance, id, Ref<Group>(*group)));
}

Made split_strictly(Communicator& parent, int64_t color, int key) {
  Made child = split(parent, color, key);
  if (!child.ok() || *child == nullptr || (*child)->size() < parent.size()) return child;
  (*child)->release();
  return nullptr;
}

int64_t host_color(Instance& instance) {
  const launch::Job& job = instance.exchange->job();
  if (!job.host_of_rank.empty()) return job.host_of_rank[static_cast<size_t>(job.rank)];
  // The launcher did not say. The boot id is one host's and survives until it restarts.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return static_cast<int64_t>(hash(boot) & INT64_MAX);
}

Made create(Communicator& parent, Group& group) {
  if (parent.inter()) return intercomm_subset(parent, group);
  const int tag = parent.next_collective_tag();
  WEFT_TRY(check_subset(group, *parent.group));
  if (group.rank() < 0) return nullptr;
  return create_among(parent, group, tag);
}

Made create_group(Communicator& parent, Group& group, int tag) {
  if (parent.inter())
    return Error(Errc::comm,
                 "comm is an intercommunicator: MPI_Comm_create_group needs an intracommunicator");
  WEFT_TRY(check_subset(group, *parent.group));
  if (group.rank() < 0) return nullptr;
  return create_among(parent, group, partial_tag(tag));
}

Made create_from_group(Instance& instance, Group& group, std::string_view name) {
  if (group.size() == 0) return nullptr;
  if (group.rank() < 0)
    return Error(Errc::group, "this process is not in the group it makes a communicator of");
  auto bootstrap = bootstrap_communicator(instance);
  if (!bootstrap) return std::move(bootstrap).error();
  return create_among(**bootstrap, group, partial_tag(tag_of(name)));
}

Made intercomm_create_from_groups(Instance& instance, Group& local, int local_leader, const Group& remote,
                                  int remote_leader, std::string_view name) {
  if (local.size() == 0 || remote.size() == 0) return nullptr;
  for (const ProcessId process : remote.processes())
    if (local.rank_of(process) >= 0)
      return Error(Errc::group, "both groups hold process " + std::to_string(process) +
                                    ": an intercommunicator needs disjoint groups");
  Made side = create_from_group(instance, local, name);
  if (!side) return side;
  const Ref<Communicator> local_comm(*side);
  auto bootstrap = bootstrap_communicator(instance);
  if (!bootstrap) return std::move(bootstrap).error();
  const auto leader = static_cast<int>(remote.process(remote_leader));
  Made made = intercomm_create(*local_comm, local_leader, bootstrap->get(), leader, tag_of(name));
  if (!made || (*made)->remote_group->compare(remote) == core::Comparison::identical) return made;
  (*made)->release();
  return Error(Errc::group, "the other side gave another group than remote_group: both have to agree");
}

}  // namespace weft::coll
