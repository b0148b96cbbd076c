// SPDX-License-Identifier: BSD-3-Clause
// Communicator: creation and destruction. Derived communicators: coll/construct.
#include "core/communicator.hpp"

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
      size_(group->size()) {}

Communicator* Communicator::create(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote) {
  return slab().create(owner, id, std::move(local), std::move(remote));
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

void Communicator::destroy() { slab().destroy(this); }

}  // namespace weft::core
