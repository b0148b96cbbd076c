// SPDX-License-Identifier: BSD-3-Clause
#include "stream/retired_regions.hpp"

#include <algorithm>
#include <atomic>

#include "device/pool.hpp"
#include "transport/am/handlers.hpp"
#include "transport/shm/shm.hpp"

namespace weft::stream {
namespace {

enum class MessageId : transport::am::HandlerId {
  ask = transport::am::kStreamHandlers,  ///< whether the receiver has unmapped the sender's region
  unmapped                               ///< the sender has
};

struct Message {
  MessageId id;
  uint8_t unused[7] = {};
  uint64_t context;  ///< of the communicator
};

void post(core::Instance& instance, core::ProcessId to, MessageId id, core::ContextId context) {
  const Message message{id, {}, context};
  instance.sender->post(to, &message, sizeof message);
}

}  // namespace

RetiredRegions::RetiredRegions(core::Instance& instance) : instance_(instance) {
  instance.handlers.add<Message>(
      static_cast<transport::am::HandlerId>(MessageId::ask), *this,
      [](RetiredRegions& self, core::ProcessId source, const Message& message, size_t) {
        if (self.mapping_.contains(message.context))
          self.asked_.emplace_back(message.context, source);
        else
          post(self.instance_, source, MessageId::unmapped, message.context);
      });
  instance.handlers.add<Message>(static_cast<transport::am::HandlerId>(MessageId::unmapped), *this,
                                 [](RetiredRegions& self, core::ProcessId source, const Message& message,
                                    size_t) { self.unmapped_by(message.context, source); });
}

RetiredRegions::~RetiredRegions() {
  instance_.handlers.remove(static_cast<transport::am::HandlerId>(MessageId::ask));
  instance_.handlers.remove(static_cast<transport::am::HandlerId>(MessageId::unmapped));
}

void RetiredRegions::end_mapping(core::ContextId context) {
  if (mapping_.erase(context) == 0) return;
  std::erase_if(asked_, [&](const auto& question) {
    if (question.first != context) return false;
    post(instance_, question.second, MessageId::unmapped, context);
    return true;
  });
}

void RetiredRegions::retire(const core::Communicator& comm, const device::Memory& region) {
  Region& retired = regions_.emplace_back(Region{comm.id, region, {}});
  for (const core::ProcessId process : comm.group->processes()) {
    if (process == instance_.self || has_ended(process)) continue;
    retired.mapped_by.insert(process);
    post(instance_, process, MessageId::ask, comm.id);
  }
}

void RetiredRegions::unmapped_by(core::ContextId context, core::ProcessId process) {
  for (Region& region : regions_)
    if (region.context == context) region.mapped_by.erase(process);
}

/// The mappings of such a process have ended with it, or with its use of MPI.
bool RetiredRegions::has_ended(core::ProcessId process) const {
  return instance_.failures.failed(process) ||
         (instance_.shm != nullptr && instance_.same_host(process) &&
          instance_.shm->departed(process).load(std::memory_order_acquire) != 0);
}

void RetiredRegions::free_unmapped() {
  std::erase_if(regions_, [this](Region& region) {
    std::erase_if(region.mapped_by, [this](core::ProcessId process) { return has_ended(process); });
    if (!region.mapped_by.empty()) return false;
    device::free_scratch(region.memory);
    return true;
  });
}

}  // namespace weft::stream
