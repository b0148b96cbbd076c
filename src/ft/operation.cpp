// SPDX-License-Identifier: BSD-3-Clause
#include "ft/operation.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "coll/construct/communicators.hpp"

namespace weft::ft {
namespace {

using core::Communicator;
using core::Group;
using core::Ref;

uint32_t ids_of(const Communicator& comm) { return comm.inter() ? coll::kIdsPerIntercomm : 1; }

}  // namespace

Slab<Operation>& Operation::slab() {
  static Slab<Operation> operations(size_t{1} << 20);
  return operations;
}

HandleState check_request(const void* handle) { return Operation::slab().check(handle); }

Operation::Operation(Communicator& communicator, int* flag, Communicator* child)
    : Request(Kind::collective), flag_(flag), child_(child) {
  comm = &communicator;
  comm->retain();
  if (child_ != nullptr) child_->retain();
}

Operation::~Operation() {
  comm->release();
  if (child_ != nullptr) child_->release();
}

void Operation::destroy() { slab().destroy(this); }

core::Operands Operation::operands() const {
  core::Operands text{.what = wait_table::What::collective};
  text.operation = flag_ != nullptr ? "agree" : "shrink";
  return text;
}

Result<Operation*> Operation::agree(Communicator& comm, int* flag) {
  Operation* const operation = slab().create(comm, flag, nullptr);
  if (operation == nullptr) return core::no_more_requests();
  operation->begin();
  return operation;
}

Result<Operation*> Operation::shrink(Communicator& comm, Communicator** child) {
  auto made = coll::inherit(comm, Communicator::create(comm.instance, 0, comm.group, comm.remote_group));
  if (!made) return std::move(made).error();
  const Ref<Communicator> created(*made);  // until the request holds it
  Operation* const operation = slab().create(comm, nullptr, *made);
  if (operation == nullptr) return core::no_more_requests();
  *child = *made;
  (*made)->retain();  // the caller's
  operation->begin();
  return operation;
}

void Operation::begin() {
  Value own;
  if (flag_ != nullptr)
    own.flags = *flag_;
  else
    own.context = comm->instance.new_contexts(ids_of(*comm));
  Service::of(comm->instance).agree(*comm, own, failed_, *this);
}

Status Operation::finish_now() {
  core::wait(comm->instance, *this);
  Service::of(comm->instance).learn();
  Status result = std::move(outcome);
  destroy();
  return result;
}

void Operation::decided(const Value& decision, const Members& members) {
  if (flag_ != nullptr) {
    *flag_ = decision.flags;
    if (decision.same_acknowledged()) return finish();
    return finish(
        Error(Errc::proc_aborted,
              "a process of the communicator has failed, and not all processes have acknowledged it "
              "(the flag is agreed all the same): call MPIX_Comm_ack_failed, or MPIX_Comm_shrink"));
  }
  failed_.insert(failed_.end(), decision.failed, decision.failed + decision.failed_count);
  std::sort(failed_.begin(), failed_.end());
  if (decision.more_failed != 0) return begin();
  Status settled = settle(decision.context, members);
  if (settled.ok()) return finish();
  finish(std::move(settled).error());
}

Status Operation::settle(core::ContextId id, const Members& members) {
  const auto survivors = [&](const Group& group) {
    std::vector<core::ProcessId> processes;
    for (const core::ProcessId process : group.processes())
      if (!std::binary_search(failed_.begin(), failed_.end(),
                              static_cast<uint32_t>(members.rank_of(process))))
        processes.push_back(process);
    return processes;
  };
  auto here = survivors(*comm->group);
  if (std::binary_search(failed_.begin(), failed_.end(), static_cast<uint32_t>(members.rank)))
    return Error(Errc::proc_aborted, "the other processes have lost this one, and go on without it");
  Ref<Group> local(Group::create(std::move(here), comm->instance.self)), remote;
  if (!local) return Error(Errc::no_mem, "out of memory for another group: free some");
  local->session = comm->group->session;
  if (comm->inter()) {
    auto there = survivors(*comm->remote_group);
    if (there.empty()) return Error(Errc::proc_aborted, "all processes of the remote group have failed");
    remote = Ref<Group>(Group::create(std::move(there), comm->instance.self));
    if (!remote) return Error(Errc::no_mem, "out of memory for another group: free some");
  }
  return coll::settle(*child_, id, std::move(local), std::move(remote));
}

}  // namespace weft::ft
