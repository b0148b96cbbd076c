// SPDX-License-Identifier: BSD-3-Clause
// Communicator: creation and destruction. Derived communicators: coll/construct.
#include "core/communicator.hpp"

#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "core/instance.hpp"

namespace weft::core {

Communicator::Communicator(Instance& owner, ContextId context_id, Ref<Group> local_group, Ref<Group> remote)
    : instance(owner),
      id(context_id),
      group(std::move(local_group)),
      remote_group(std::move(remote)),
      handle(reinterpret_cast<uintptr_t>(this)),
      peers_(remote_group ? remote_group.get() : group.get()),
      rank_(group->rank()),
      size_(group->size()) {
  WEFT_ASSERT(valid_id(instance, id));  // N6
  if (!instance.processes.any_others()) [[likely]]
    return;
  for (const Group* members : {group.get(), remote_group.get()})
    if (members != nullptr)
      for (const ProcessId process : members->processes()) instance.processes.retain(process);
}

bool Communicator::valid_id(const Instance& instance, ContextId id) {
  return id < ContextId{1} << kCreatorShift ||
         instance.processes.is_creator(static_cast<uint32_t>(id >> kCreatorShift));
}

Communicator* Communicator::create(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote) {
  Communicator* const made = slab().create(owner, id, std::move(local), std::move(remote));
  if (made != nullptr) owner.failures.known(*made);
  return made;
}

Slab<Communicator>& Communicator::slab() {
  static Slab<Communicator> communicators;
  return communicators;
}

signed char Communicator::find_hosts() const {
  for (const ProcessId process : group->processes())
    if (!instance.same_host(process)) return 0;
  return 1;
}

void Communicator::settle(ContextId final_id, Ref<Group> local_group, Ref<Group> remote) {
  WEFT_ASSERT(inter() == static_cast<bool>(remote) && collective == nullptr);
  std::vector<ProcessId> left_out;
  for (const auto& [before, after] : {std::pair(group, local_group), std::pair(remote_group, remote)})
    if (before)
      for (const ProcessId process : before->processes())
        if (after->rank_of(process) < 0) left_out.push_back(process);
  id = final_id;
  group = std::move(local_group);
  remote_group = std::move(remote);
  peers_ = remote_group ? remote_group.get() : group.get();
  rank_ = group->rank();
  size_ = group->size();
  on_one_host_ = -1;
  if (instance.processes.any_others()) [[unlikely]]
    for (const ProcessId process : left_out) instance.processes.release(process);
  instance.failures.known(*this);
}

void Communicator::destroy() {
  Instance& owner = instance;
  if (local) local->part_of = nullptr;
  std::vector<ProcessId> members;
  if (owner.processes.any_others()) [[unlikely]]
    for (const Group* of : {group.get(), remote_group.get()})
      if (of != nullptr) members.insert(members.end(), of->processes().begin(), of->processes().end());
  slab().destroy(this);
  // After the state of the communicator: a process without references loses its mappings.
  for (const ProcessId process : members) owner.processes.release(process);
}

}  // namespace weft::core
